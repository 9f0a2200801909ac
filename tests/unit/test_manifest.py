"""Which manifest follows which, for any order and number of publications."""

import json
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from longhaul.core.lease import AttemptId, State, job_key
from longhaul.core.settings import LeaseSettings, Mode
from longhaul.outputs.manifest import (
    MAIN,
    MAX_FILES,
    Manifest,
    ManifestFile,
    PendingOutput,
    PendingTable,
    Switch,
    Upload,
    decide_switch,
    merged,
)
from longhaul.outputs.pending import attempt_of, decide_pending, is_own, pending_ref
from tests.builders import NOW, changed, running

FOREIGN = '"etag-of-another-tool"'
OURS = '"etag"'


def pending(
    number: int,
    mode: Mode = "overwrite",
    sees: Manifest | None = None,
    rows: int | None = 1,
    dataset: str = MAIN,
    types: dict[str, str] | None = None,
) -> PendingOutput:
    """An output of one file. `sees` is the manifest that was in place at its upload."""
    attempt = AttemptId(f"main#job-{number}", 1, 1)
    replaced = sees if mode == "overwrite" else None
    return PendingOutput(
        token=attempt.token,
        prefix="s3://data/out/",
        mode=mode,
        replaces_base=replaced.base if replaced else None,
        replaces=tuple(file.path for file in replaced.files) if replaced else (),
        manifest=Manifest(
            key=attempt.key,
            run=1,
            attempt=1,
            files=(ManifestFile(path=f"part-{number}", size=1, dataset=dataset),),
            rows={} if rows is None else {dataset: rows},
            types={dataset: types} if types else {},
        ),
    )


def test_types_of_columns_are_known_where_all_files_agree() -> None:
    first = merged(pending(1, types={"n": "integer", "at": "date"}), None)
    assert first.types == {MAIN: {"n": "integer", "at": "date"}}

    same = merged(pending(2, "append", types={"n": "integer", "at": "timestamp"}), first)
    assert same.types == {MAIN: {"n": "integer"}}
    texts = merged(pending(3, "append"), same)
    assert texts.types == {}
    beside = merged(pending(4, "append", dataset="bad", types={"x": "double"}), first)
    assert beside.types == {MAIN: first.types[MAIN], "bad": {"x": "double"}}
    assert merged(pending(5, sees=first, types={"n": "long"}), first).types == {MAIN: {"n": "long"}}


def files(manifest: Manifest) -> list[str]:
    return [file.path for file in manifest.files]


def test_first_output_is_due_and_stays_done_once_published() -> None:
    first = pending(1)
    assert decide_switch(first, None, None) is Switch.DUE
    manifest = merged(first, None)
    assert decide_switch(first, manifest, OURS) is Switch.DONE
    replaced = merged(pending(2, sees=manifest), manifest)
    assert files(replaced) == ["part-2"]
    assert decide_switch(first, replaced, OURS) is Switch.DONE


@pytest.mark.parametrize(
    "sees", [None, merged(pending(1), None)], ids=["onto nothing", "onto an output"]
)
def test_overwrite_keeps_what_was_appended_after_its_look(sees: Manifest | None) -> None:
    overwrite = pending(2, sees=sees)
    appended = merged(pending(3, "append"), sees)
    assert decide_switch(overwrite, appended, OURS) is Switch.DUE
    assert files(merged(overwrite, appended)) == ["part-3", "part-2"]


@pytest.mark.parametrize(
    ("mode", "switch"),
    [("error", Switch.OCCUPIED), ("append", Switch.DUE), ("overwrite", Switch.DUE)],
)
def test_existing_output_of_ours_occupies_the_prefix_only_in_mode_error(
    mode: Mode, switch: Switch
) -> None:
    old = merged(pending(1), None)
    assert decide_switch(pending(2, mode, sees=old), old, OURS) is switch


@pytest.mark.parametrize(
    ("mode", "switch"),
    [("error", Switch.OCCUPIED), ("append", Switch.OCCUPIED), ("overwrite", Switch.REPLACED)],
)
def test_output_of_another_tool_that_appeared_after_the_look_is_never_overwritten(
    mode: Mode, switch: Switch
) -> None:
    assert decide_switch(pending(2, mode), None, FOREIGN) is switch


def test_output_of_another_tool_seen_before_the_upload_is_overwritten() -> None:
    seen = pending(2).model_copy(update={"replaces_etag": FOREIGN})
    assert decide_switch(seen, None, FOREIGN) is Switch.DUE


@pytest.mark.parametrize(
    ("old_rows", "new_rows", "total"), [(3, 4, {".": 7}), (None, 4, {}), (3, None, {})]
)
def test_rows_are_summed_only_where_all_counts_are_known(
    old_rows: int | None, new_rows: int | None, total: dict[str, int]
) -> None:
    old = merged(pending(1, rows=old_rows), None)
    assert merged(pending(2, "append", rows=new_rows), old).rows == total


def test_rows_are_unknown_where_only_a_part_of_a_dataset_is_kept() -> None:
    old = merged(pending(1), None)
    overwrite = pending(2, sees=old)
    assert merged(overwrite, merged(pending(3, "append"), old)).rows == {}
    assert merged(overwrite, old).rows == {".": 1}


MANIFEST_OF_NONE = {"key": "main#a", "run": 1, "attempt": 1, "files": []}
LIST_OF_NONE = {"token": "token", "prefix": "s3://data/out/"}
TABLE = {"database": "d", "name": "n", "location": "l", "mode": "append", "columns": "[]"}
UPLOAD = {"path": "part-0", "upload_id": "u", "size": 1}


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (Manifest, MANIFEST_OF_NONE | {"published": ["token"] * 1_001}),
        (Manifest, MANIFEST_OF_NONE | {"rows": {f"{n}": 1 for n in range(2 * MAX_FILES + 1)}}),
        (Manifest, MANIFEST_OF_NONE | {"key": "k" * 2_049}),
        (PendingOutput, LIST_OF_NONE | {"replaces": ["a"] * (2 * MAX_FILES + 1)}),
        (PendingOutput, LIST_OF_NONE | {"uploads": [UPLOAD] * (2 * MAX_FILES + 1)}),
        (PendingOutput, LIST_OF_NONE | {"tables": [TABLE] * (2 * MAX_FILES + 1)}),
        (PendingOutput, LIST_OF_NONE | {"prefix": "p" * 2_049}),
        (Upload, UPLOAD | {"parts": [{"n": 1, "etag": "e"}] * 10_001}),
        (Upload, UPLOAD | {"path": "p" * 2_049}),
        # At the first wrong file it is given up.
        (Manifest, MANIFEST_OF_NONE | {"files": [7] * 1_000}),
        *(
            (ManifestFile, {"path": path, "size": 1})
            for path in ("/etc/passwd", "../x", "a//b", "a/./b", "")
        ),
        *((ManifestFile, {"path": "part-0", "size": size}) for size in (-1, 2**50 + 1, 10**400)),
        *(
            (Manifest, MANIFEST_OF_NONE | {"types": {MAIN: {"n": type_}}})
            for type_ in ("struct<a:int>", "int DEFAULT 1", "integer\n", "string", "")
        ),
    ],
    ids=lambda value: list(value)[-1] if isinstance(value, dict) else value.__name__,
)
def test_what_a_task_writes_is_well_formed_and_has_an_end(
    model: type[BaseModel], fields: dict[str, object]
) -> None:
    with pytest.raises(ValidationError) as refused:
        model.model_validate(fields)
    assert refused.value.error_count() == 1


@dataclass
class Output:
    """A prefix, and the manifest that is visible in it."""

    manifest: Manifest | None = None

    def publish(self, output: PendingOutput) -> Switch:
        decision = decide_switch(output, self.manifest, OURS if self.manifest else None)
        if decision is Switch.DUE:
            self.manifest = merged(output, self.manifest)
        return decision


STEPS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["upload", "publish"])), max_size=40)


@pytest.mark.parametrize(
    "forged",
    [
        {"rows": {MAIN: 10**4300 - 1}},
        {"rows": {MAIN: 2**63 - 1}},
        {"rows": {MAIN: -1}},
        {"run": 10**4299},
        {"attempt": 10**4299},
    ],
)
def test_what_is_appended_to_forged_numbers_is_read_again(forged: dict[str, object]) -> None:
    found = {"key": "main#a", "run": 1, "attempt": 1, "files": [{"path": "x", "size": 1}]}
    try:
        current = Manifest.model_validate_json(json.dumps(found | forged))
    except ValidationError:
        return  # it is not ours: an append leaves it as it is

    appended = merged(pending(1, "append", current), current)

    assert Manifest.model_validate_json(appended.model_dump_json()) == appended


@given(
    modes=st.lists(st.sampled_from(["overwrite", "append"]), min_size=6, max_size=6), steps=STEPS
)
def test_in_any_order_rows_appear_once_and_only_an_overwrite_that_saw_an_append_removes_it(
    modes: list[Mode], steps: list[tuple[int, str]]
) -> None:
    output, pendings = Output(), dict[int, PendingOutput]()
    appended: set[str] = set()
    for number, step in steps:
        if step == "upload":
            pendings.setdefault(number, pending(number, modes[number], sees=output.manifest))
        elif number in pendings:
            file, seen = f"part-{number}", set(pendings[number].replaces)
            if output.publish(pendings[number]) is Switch.DUE:
                appended -= seen
                if modes[number] == "append":
                    appended.add(file)
        visible = files(output.manifest) if output.manifest else []
        assert len(visible) == len(set(visible))
        assert appended <= set(visible)


# The names of lists of pending uploads.
#
# When a list is kept, struck off or aborted is in the table of `docs/internals/lease.md`.


KEYS = st.builds(
    job_key,
    st.from_regex(r"[a-z][a-z0-9-]{0,30}", fullmatch=True),
    st.from_regex(r"(?!/)[A-Za-z0-9._/-]{1,128}", fullmatch=True),
)


@given(KEYS, st.integers(0, 10**13), st.integers(1, 10_000))
def test_attempt_is_read_back_from_the_name_of_its_list(key: str, run: int, attempt: int) -> None:
    owner = AttemptId(key, run, attempt)
    assert attempt_of(pending_ref(owner)) == owner


def test_name_of_a_list_is_readable_and_slashes_of_the_job_id_make_no_folders() -> None:
    ref = pending_ref(AttemptId("main#flights/2013-01", 1_767_323_045_000, 2))
    assert ref == "longhaul/pending/main!flights!2013-01/1767323045000-2.json"


@pytest.mark.parametrize(
    "name",
    [
        "longhaul/requests/main!a/1-1.json",
        "longhaul/pending/",
        "longhaul/pending/0123456789abcdef0123/1-1.json",
        "longhaul/pending/main!a/b/1-1.json",
        "longhaul/pending/main!a/1-x.json",
    ],
)
def test_name_of_another_object_belongs_to_no_attempt(name: str) -> None:
    assert attempt_of(name) is None


def test_a_list_is_its_attempts_own_only_with_tables_where_their_names_say() -> None:
    attempt = AttemptId("main#a", 1, 1)

    def listing(location: str) -> PendingOutput:
        table = PendingTable(
            database="lake", name="a", location=location, mode="append", columns=""
        )
        place = "s3://data/tables/lake/"
        return PendingOutput(version=2, token=attempt.token, prefix=place, tables=(table,))

    own = listing("s3://data/tables/lake/a")
    assert is_own(own, attempt, "data")
    assert not is_own(listing("s3://data/longhaul/requests"), attempt, "data")


@pytest.mark.parametrize(
    ("state", "number", "settled_s", "decision"),
    [
        (State.RUNNING, 3, None, "keep"),  # of an attempt that the row does not know yet
        (State.DEAD, 3, 10_000, "keep"),
        (State.DEAD, 2, 149, "keep"),  # its task may still be stopping
        (State.DEAD, 2, 150, "abort"),
        (State.DEAD, 2, None, "abort"),
        (State.DEAD, 1, None, "abort"),
        (State.RUNNING, 1, None, "abort"),
    ],
)
def test_uploads_are_aborted_when_their_task_must_be_gone(
    state: State, number: int, settled_s: int | None, decision: str
) -> None:
    row = changed(running(), attempt=2, state=state)
    if settled_s is not None:
        row = changed(row, settled_at=NOW - timedelta(seconds=settled_s))
    owner = replace(row.id, attempt=number)

    assert decide_pending(owner, row, LeaseSettings(), NOW) == decision
