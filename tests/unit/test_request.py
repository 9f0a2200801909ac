import json
import re
import tracemalloc
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longhaul.core.claim import tag_value
from longhaul.core.errors import InvalidRequestError
from longhaul.core.policy import parse_request
from longhaul.core.request import JobRequest, parse_job_id, read_request
from longhaul.core.settings import EmrApplication, PathPolicy
from longhaul.operations.letter import sent_again
from longhaul.operations.submit import new_ids
from tests import builders
from tests.builders import BUCKET, NOW, body, settings, stage


def created(key: Any = "in/a.csv", etag: str = "e") -> dict[str, Any]:
    """An object as S3's event has it."""
    return {"bucket": {"name": BUCKET}, "object": {"key": key, "etag": etag, "size": 7}}


OBJECT = created()


def problems_of(text: str) -> list[str]:
    with pytest.raises(InvalidRequestError) as caught:
        parse_request(text, settings(), stage())
    return caught.value.problems


def test_valid_body_is_parsed_with_durations_in_seconds() -> None:
    request = parse_request(
        body(timeout="6h", stall_timeout="90s", max_attempts=5, size="large", params={"limit": 3}),
        settings(),
        stage(),
    )
    assert (request.timeout, request.stall_timeout, request.max_attempts, request.size) == (
        21_600,
        90,
        5,
        "large",
    )
    assert request.params == {"limit": 3}


def test_data_is_the_stacks_own_bucket_and_asks_for_the_same_work_as_its_name() -> None:
    short: dict[str, Any] = {
        "inputs": {"a": "data:raw/*.csv", "b": "s3://theirs/x", "c": "table:hits@7?day > '1'"},
        "output": "data:out/",
        "outputs": {"hits": "table:hits_of_day", "theirs": "table://theirs/hits"},
        "mode": "append",
    }
    theirs: dict[str, Any] = {"input_buckets": ("theirs",), "table_databases": ("ours", "theirs")}
    known = settings(paths=PathPolicy(data_bucket=BUCKET, **theirs))
    text = body(**short).replace("data:", f"s3://{BUCKET}/").replace('"table:h', '"table://ours/h')

    request = parse_request(body(**short), known, stage())
    assert request.fingerprint() == parse_request(text, known, stage()).fingerprint()
    assert request.inputs["c"] == "table://ours/hits@7?day > '1'"
    assert read_request(body(**short)).output == "data:out/", "as it was sent"


def test_engine_of_the_stack_is_accepted_and_any_other_is_refused_by_name() -> None:
    application = EmrApplication(
        application_arn="arn:aws:emr-serverless:…:/applications/a", work_area="s3://data/w/"
    )
    on_emr = settings(emr_serverless=application)

    assert parse_request(body(engine="emr-serverless"), on_emr, stage()).engine == "emr-serverless"
    assert parse_request(body(engine="fargate"), on_emr, stage()).engine == "fargate"
    assert problems_of(body(engine="emr-serverless")) == [
        "engine: this stack has no emr-serverless; it has: fargate",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the body is not valid JSON at line 1, column 1"),
        ("{'job': 1}", "the body is not valid JSON at line 1, column 2"),
        ("[]", "the body must be a JSON object, not an array"),
        ("null", "the body must be a JSON object, not null"),
        ('"job"', "the body must be a JSON object, not a text"),
        ("7", "the body must be a JSON object, not a number"),
        ("true", "the body must be a JSON object, not a boolean"),
        ("[" * 100_000, "the body is nested too deeply"),
        ('{"a":' * 100_000, "the body is nested too deeply"),
        ('{"params": NaN}', "the body is not valid JSON"),
        ('{"job": "sql"}', "output: is missing"),
        (
            body(params={"limit": 1}).replace('"limit": 1', '"limit": 1e999'),
            "params: Out of range float values are not JSON compliant",
        ),
    ],
)
def test_body_that_is_no_request_is_refused(text: str, problem: str) -> None:
    (found,) = problems_of(text)
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"job": "no_such_job"},
            "job: unknown job; known: daily_delays, flights_clean, sql",
        ),
        ({"priority": 1}, "priority: unknown field; known: version, job, job_id"),
        # It cannot forge a log line.
        ({"a\nERROR all is lost": 1}, "a\\nERROR all is lost: unknown field"),
        ({"job": 7}, "job: Input should be a valid string"),
        (
            {"job": "../sql"},
            "job: a job is a name of the catalogue (A-Z a-z 0-9 _), or s3://…/name.py",
        ),
        (
            {"job": f"s3://{BUCKET}/jobs/a.py"},
            "job: code from S3 is not allowed here: the setting job_prefixes",
        ),
        (
            {"mode": "upsert"},
            "mode: Input should be 'overwrite', 'append', 'error' or 'overwrite_partitions'",
        ),
        ({"inputs": ["a"]}, "inputs: Input should be a valid dictionary"),
        ({"inputs": {"flights": 7}}, "inputs.flights: Input should be a valid string"),
        ({"max_attempts": "3"}, "max_attempts: Input should be a valid integer"),
        ({"max_attempts": True}, "max_attempts: Input should be a valid integer"),
        ({"max_attempts": 0}, "max_attempts: Input should be greater than or equal to 1"),
        ({"timeout": 90}, "timeout: a duration is a text such as 90s, 15m or 6h"),
        ({"timeout": "604801s"}, "timeout: at most 7d"),
        ({"timeout": ""}, "timeout: not a duration"),
        ({"job": "s3://" + "a" * 2_044}, "job: String should have at most 2048 characters"),
        ({"output": ""}, "output: String should have at least 1 character"),
        ({"output": "a" * 2_049}, "output: String should have at most 2048 characters"),
        ({"inputs": {"a": "a" * 2_049}}, "inputs.a: String should have at most 2048 characters"),
        ({"inputs": {"a": ""}}, "inputs.a: String should have at least 1 character"),
        ({"inputs": {f"a{n}": "b" for n in range(5_001)}}, "inputs: at most 5,000, not 5,001"),
        ({"max_attempts": 101}, "max_attempts: Input should be less than or equal to 100"),
        ({"engine": "mainframe"}, "engine: Input should be 'fargate'"),
        ({"size": "huge"}, "size: Input should be 'tiny', 'small', 'medium', 'large' or 'xlarge'"),
        ({"job_id": "a" * 129}, "job_id: a job_id has 1 to 128 of"),
        ({"job_id": "../a"}, "job_id: a job_id has 1 to 128 of"),
        ({"job_id": "/a"}, "job_id: a job_id has 1 to 128 of"),
        ({"job_id": "a b"}, "job_id: a job_id has 1 to 128 of"),
        ({"job_id": "a\n"}, "job_id: a job_id has 1 to 128 of"),
        ({"version": 2}, "version: Input should be 1"),
        (
            {"inputs": {"flights": "s3://other/x"}},
            "inputs.flights: this bucket is not allowed; allowed: longhaul-data, landing",
        ),
        (
            {"inputs": {"flights": f"s3://{BUCKET}/a/../b"}},
            "inputs.flights: must not contain '.' or '..' segments",
        ),
        (
            {"inputs": {"flights": f"s3://{BUCKET}//a"}},
            "inputs.flights: must not contain empty segments",
        ),
        (
            {"inputs": {"flights": f"s3://{BUCKET}/longhaul/requests/x"}},
            "inputs.flights: longhaul/ in the data bucket is Longhaul's own",
        ),
        (
            {"inputs": {"flights": "file:///etc/passwd"}},
            "inputs.flights: must be s3://bucket/… or data:…",
        ),
        (
            {"inputs": {"flights": "http://169.254.169.254/x"}},
            "inputs.flights: must be s3://bucket/… or data:…",
        ),
        ({"inputs": {"flights": "/etc/passwd"}}, "inputs.flights: must be s3://bucket/… or data:…"),
        (
            {"inputs": {"flights": f"s3://{BUCKET}/a\u0000b"}},
            "inputs.flights: has control characters",
        ),
        (
            {"output": f"s3://{BUCKET}/"},
            "output: an output needs a prefix of its own, not the root",
        ),
        ({"output": f"s3://{BUCKET}/a*/"}, "output: an output is one prefix: no glob characters"),
        (
            {"output": "s3://landing/x/"},
            "output: this bucket is not allowed; allowed: longhaul-data",
        ),
        ({"output": f"s3://{BUCKET}/" + "a" * 900}, "output: longer than 768 bytes"),
        *(
            ({"label": each}, "label: has 1 to 100 characters that can be printed")
            for each in ("", " a", "a\n", "a\x1b[2J", "a\u202eb", "a" * 101)
        ),
        ({"label": 7}, "label: Input should be a valid string"),
        ({"tags": ["a"]}, "tags: Input should be a valid dictionary"),
        ({"tags": {f"a{n}": "b" for n in range(11)}}, "tags: at most 10, not 11"),
        ({"tags": {"a=b": "c"}}, "tags.a=b: a tag's name has 1 to 64 of"),
        ({"tags": {"a" * 65: "c"}}, f"tags.{'a' * 24}…: a tag's name has 1 to 64 of"),
        ({"tags": {"a": 7}}, "tags.a: Input should be a valid string"),
        ({"tags": {"a": ""}}, "tags.a: has 1 to 100 characters that can be printed"),
        (
            {"tags": {"Longhaul.root": "a"}},
            "tags.Longhaul.root: names that begin with longhaul are kept for Longhaul's own",
        ),
        (
            {"tags": {f"a{n}": "b" * 100 for n in range(6)}},
            "tags: at most 512 bytes of names and values, not 612",
        ),
        ({"output": "data:longhaul/x/"}, "output: "),
        ({"output": "data:"}, "output: "),
        ({"output": "data:/x/"}, "output: "),
        ({"inputs": {"flights": "data:longhaul/"}}, "inputs.flights: "),
        ({"job": "data:elsewhere/x.py"}, "job: "),
        (
            {"outputs": {f"a{n}": f"s3://{BUCKET}/{n}/" for n in range(6)}},
            "outputs: at most 5, not 6",
        ),
        ({"outputs": {"a b": f"s3://{BUCKET}/a/"}}, "outputs.a b: String should match pattern"),
        ({"outputs": {"a": ""}}, "outputs.a: String should have at least 1 character"),
        ({"outputs": {"a": "file:///x"}}, "outputs.a: must be s3://bucket/…"),
        (
            {"outputs": {"a": f"s3://{BUCKET}/longhaul/x/"}},
            "outputs.a: longhaul/ in the data bucket",
        ),
        ({"outputs": {"a": "table://lake/t"}}, "outputs.a: this stack has no tables"),
        ({"outputs": ["s3://b/"]}, "outputs: Input should be a valid dictionary"),
        (
            {"object": OBJECT, "inputs": {"flights": 7}},
            "inputs.flights: Input should be a valid string",
        ),
        ({"object": OBJECT, "inputs": ["{object}"]}, "inputs: Input should be a valid dictionary"),
        ({"object": OBJECT, "output": 7}, "output: Input should be a valid string"),
        (
            {"object": {**OBJECT, "object": {"key": 7, "etag": "e", "size": 7}}},
            "object.object.key: Input should be a valid string",
        ),
    ],
)
def test_invalid_field_is_named_with_what_is_allowed(change: dict[str, Any], problem: str) -> None:
    found = problems_of(body(**change))
    assert len(found) == 1
    assert found[0].startswith(problem)


def test_request_may_be_as_large_as_its_limits() -> None:
    path = "a" * 2_048
    largest = {
        "job": "s3://" + "a" * 2_043,
        "inputs": {"b": path} | {f"a{n}": "c" for n in range(4_999)},
        "output": path,
        "timeout": "7d",
        "stall_timeout": "1s",
        "max_attempts": 100,
    }
    assert read_request(json.dumps(largest)).model_dump(include=set(largest)) == {
        **largest,
        "timeout": 604_800,
        "stall_timeout": 1,
    }
    assert read_request(json.dumps({"output": "a", "inputs": {"a": "b"}})) == JobRequest(
        version=1, output="a", inputs={"a": "b"}, mode="overwrite", params={}
    )


def test_all_problems_are_reported_at_once() -> None:
    assert len(problems_of(body(size="huge", engine="mainframe", colour="red"))) == 3


def test_problems_never_quote_values_of_the_body() -> None:
    assert "hunter2" not in "; ".join(
        problems_of(
            body(
                timeout="hunter2",
                params=["hunter2"],
                job_id="hunter2 hunter2",
                size={"password": "hunter2"},
            )
        )
    )


@pytest.mark.parametrize("job_id", ["a", "a/b:c-d.e_F9", "a" * 128])
def test_job_id_of_an_attribute_is_kept_as_it_came(job_id: str) -> None:
    assert parse_job_id(job_id) == job_id


@pytest.mark.parametrize("job_id", ["", "/a", "a..b", "a" * 129, "-rf", "--all"])
def test_job_id_of_an_attribute_follows_the_rule_of_the_body(job_id: str) -> None:
    with pytest.raises(InvalidRequestError, match="message attribute job_id: a job_id has 1 to"):
        parse_job_id(job_id)


@pytest.mark.parametrize(
    ("job", "name"),
    [
        ("ü-report", "report-"),  # an id is no option of a command
        ("a b", "a-b-"),
        ("x(1)", "x-1-"),
        ("y" * 140, "y"),
        ("..", ""),
        (f"s3://{BUCKET}/jobs/v1.2.py", "s3-"),
    ],
)
def test_an_id_that_is_made_for_a_request_is_one_whatever_its_job_is_called(
    job: str, name: str
) -> None:
    made = new_ids(NOW, Random(1))(job)
    assert made.startswith(name)
    assert parse_job_id(made) == made


def test_long_list_of_problems_is_cut() -> None:
    found = problems_of(body(**{f"field{n}": n for n in range(500)}))
    assert len(found) == 11
    assert found[-1] == "and 490 more"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"inputs": {f"{n}": n for n in range(5_001)}}, "inputs: at most 5,000, not 5,001"),
        (
            {"lineage": {"root": "main#a", "parent": "main#a", "groups": [{"of": 7}] * 1_000}},
            "lineage.groups.0.of: Input should be a valid string",
        ),
    ],
)
def test_no_more_items_are_looked_at_than_a_request_may_have(
    change: dict[str, Any], problem: str
) -> None:
    found = problems_of(body(**change))
    assert found[0] == problem
    assert len(found) <= 4  # those of one item


@pytest.mark.parametrize("item", ["[]", "{}", "[[]]", '{"a":{}}'])
def test_a_body_has_so_many_lists_and_objects_at_most(item: str) -> None:
    outer, each = (text.count("[") + text.count("{") for text in (body(params={"x": []}), item))
    full = [json.loads(item)] * ((100_000 - outer) // each)

    read_request(body(params={"x": full}))
    (problem,) = problems_of(body(params={"x": [*full, *full[:1], {}]}))
    assert problem.startswith("the body has more than 100,000 lists and objects: put what is large")


def test_file_paths_are_accepted_for_inputs_where_the_settings_allow_them() -> None:
    local = settings(paths=PathPolicy(data_bucket=BUCKET, allow_file=True))
    parse_request(body(inputs={"flights": "file:///data/flights.csv"}), local, stage())
    with pytest.raises(InvalidRequestError, match="file: paths serve for inputs only"):
        parse_request(body(output="file:///data/out"), local, stage())
    with pytest.raises(InvalidRequestError, match="segments"):
        parse_request(body(inputs={"flights": "file:///data/%2e%2e/flights.csv"}), local, stage())


CODE_ALLOWED = settings(
    paths=PathPolicy(data_bucket=BUCKET, job_prefixes=(f"s3://{BUCKET}/jobs/", "s3://code/"))
)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (f"s3://{BUCKET}/jobs/clean/orders.py", None),
        ("s3://code/orders.py", None),
        (
            f"s3://{BUCKET}/raw/a.py",
            f"not under a prefix that code may come from: s3://{BUCKET}/jobs/, s3://code/",
        ),
        (f"s3://{BUCKET}/jobs-of-others/a.py", "not under a prefix that code may come from"),
        ("s3://elsewhere/jobs/a.py", "not under a prefix that code may come from"),
        (f"s3://{BUCKET}/jobs/../raw/a.py", "must not contain '.' or '..' segments"),
        (f"s3://{BUCKET}/jobs/a.zip", "must be one Python file: s3://…/name.py"),
        (f"s3://{BUCKET}/jobs/*.py", "must be one Python file: s3://…/name.py"),
        (f"s3://{BUCKET}/jobs/", "must be one Python file: s3://…/name.py"),
    ],
)
def test_code_comes_from_the_allowed_prefixes_alone(path: str, problem: str | None) -> None:
    found = builders.problems_of(CODE_ALLOWED, job=path)
    assert [each.startswith(f"job: {problem}") for each in found] == [True] * (problem is not None)


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({"mode": "overwrite"}, True),  # the default
        ({"mode": "append"}, False),
        ({"params": {"a": 1}}, False),
        ({"timeout": "1h"}, False),
        ({"outputs": {}}, True),
        ({"outputs": {"report": f"s3://{BUCKET}/report/"}}, False),
        # Where it comes from, and what it is called.
        ({"job_id": "named"}, True),
        ({"lineage": {"root": "main#a", "parent": "main#a"}}, True),
        ({"afresh": True}, True),
        ({"label": "2026-10-07", "tags": {"day": "2026-10-07"}}, True),
    ],
)
def test_requests_for_the_same_work_have_the_same_fingerprint(
    change: dict[str, Any], *, is_same: bool
) -> None:
    plain, changed = (JobRequest.model_validate_json(text) for text in (body(), body(**change)))
    assert (changed.fingerprint() == plain.fingerprint()) is is_same


def test_fingerprint_of_an_earlier_version_is_that_of_today() -> None:
    asked = {"job": "sql", "output": "s3://b/o/", "params": {"sql": "select 1", "days": [1, 2]}}
    assert JobRequest.model_validate(asked).fingerprint() == "e005e65cb947c8c4caf99370c4ac5d40"


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_any_json_is_either_a_request_or_a_list_of_problems(document: Any) -> None:
    try:
        assert isinstance(parse_request(json.dumps(document), settings(), stage()), JobRequest)
    except InvalidRequestError as error:
        assert error.problems  # noqa: PT017 - pytest.raises would demand an error


def test_a_request_for_an_object_has_its_path_and_an_id_made_of_key_and_etag() -> None:
    made, other = created("in/July [1].csv", "e1-2"), created("in/July [1].csv", "e2")
    places = {name: f"s3://{BUCKET}/{name}/{{object.id}}/" for name in ("x", "report")}
    outputs = {"output": places["x"], "outputs": {"report": places["report"]}}
    text = body(inputs={"flights": "{object}"}, **outputs)
    document = {name: value for name, value in json.loads(text).items() if name != "job_id"}

    request, again, newer = (
        parse_request(json.dumps({**document, "object": each}), settings(), stage())
        for each in (made, made, other)
    )

    assert request.inputs == {"flights": f"s3://{BUCKET}/in/July [[]1].csv"}
    assert request.job_id is not None
    assert request.job_id.startswith("July-1-csv-")
    assert request.output == f"s3://{BUCKET}/x/{request.job_id}/"
    assert request.outputs == {"report": f"s3://{BUCKET}/report/{request.job_id}/"}
    assert again.job_id == request.job_id != newer.job_id
    assert again.fingerprint() == request.fingerprint() != newer.fingerprint()


@given(st.text(min_size=1, max_size=1_024), st.text(min_size=1, max_size=128))
def test_an_object_makes_a_valid_job_id_whatever_its_key_holds(key: str, etag: str) -> None:
    document = {
        "inputs": {"x": "s3://bucket/y"},
        "output": f"s3://{BUCKET}/{{object.id}}/",
        "object": created(key, etag),
    }
    request = JobRequest.model_validate(document)
    assert request.object is not None
    assert request.job_id == request.object.id
    assert request.output == f"s3://{BUCKET}/{request.job_id}/"


@pytest.mark.parametrize(("length", "kept"), [(60, 60), (61, 60)])
def test_id_of_an_object_begins_with_the_last_60_characters_of_its_name(
    length: int, kept: int
) -> None:
    key = "in/" + "x" * (length - 1) + "z"
    made = JobRequest.model_validate({**json.loads(body()), "object": created(key)})
    assert made.job_id is not None
    name, _, digest = made.job_id.partition("-")
    assert (name, len(digest)) == ("x" * (kept - 1) + "z", 24)


@pytest.mark.parametrize(
    ("key", "label"),
    [
        ("in/2013-01.csv", "2013-01.csv"),
        ("in/a\nb ", "a b"),
        ("in/\n", None),
        ("in/" + "x" * 101 + "z", "x" * 99 + "z"),
    ],
)
def test_a_request_for_an_object_is_labelled_with_its_name(key: str, label: str | None) -> None:
    document = {**json.loads(body()), "object": created(key)}
    assert JobRequest.model_validate(document).label == label
    assert JobRequest.model_validate({**document, "label": "mine"}).label == "mine"


def test_a_request_that_names_its_object_too_often_is_refused_before_it_is_filled() -> None:
    often = body(inputs={"a": "{object}" * 90_000}, object=created(key="*" * 1_024))
    tracemalloc.start()
    try:
        (problem,) = problems_of(often)
        assert tracemalloc.get_traced_memory()[1] < 20 * 2**20  # its paths have 300 MB
    finally:
        tracemalloc.stop()
    assert problem.startswith("the object is named 90,000 times, which would make the request")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"job": "sql", "n": 1.10}', '{"job": "sql", "n": 1.10, "afresh": true}'),
        (' {"afresh": false}\n', ' {"afresh": false, "afresh": true}'),
        ("{ }", '{"afresh": true}'),
        ("[7]", "[7]"),
        ("no json", "no json"),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_a_body_that_begins_afresh_stays_what_it_was_otherwise(before: str, after: str) -> None:
    assert sent_again(before, afresh=True) == after


def test_a_request_that_began_afresh_does_so_once() -> None:
    again = sent_again(body(afresh=True), afresh=False)
    assert again.startswith(body(afresh=True).removesuffix("}"))
    assert read_request(again).afresh is False
    assert sent_again(body(), afresh=False) == body()
    assert sent_again(again, afresh=False) == again
    assert read_request(sent_again(again, afresh=True)).afresh is True


# Jobs and labels as values of AWS's tags.


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("flights_clean", "flights_clean"),
        ("s3://code/jobs/a.py", "s3://code/jobs/a.py"),
        ("7. Oktober, früh (2)", "7. Oktober_ früh _2_"),
        ("a\tb", "a_b"),
        ("AWS: costs", "_WS: costs"),
        ("", ""),
        ("x" * 300, "x" * 256),
    ],
)
def test_what_aws_would_refuse_is_replaced(text: str, value: str) -> None:
    assert tag_value(text) == value


@given(st.text())
def test_every_text_becomes_a_value_that_aws_takes(text: str) -> None:
    value = tag_value(text)
    assert re.fullmatch(r"[\w +=.:/@-]{0,256}", value)
    assert not value.lower().startswith("aws:")
