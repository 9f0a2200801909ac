"""No pin is raised over a text of AWS that has changed and was not read."""

import ast
import json

import pytest

from tests import aws_documentation
from tests.aws_documentation import FILE, Known, changes, documented, known


def test_what_aws_says_of_our_calls_has_been_read() -> None:
    lines = changes(json.loads(FILE.read_text()), known())

    way_out = (
        "AWS says something new: read it, change the code where it must, and then "
        "`python -m tests.aws_documentation --read`"
    )
    assert not lines, "\n".join([*lines, way_out])


def test_another_text_and_another_shape_are_shown_with_the_text_of_today() -> None:
    now = known()
    name = "emr-serverless.StartJobRun.ExecutionTimeoutMinutes"
    shape = "sqs.SendMessage.MessageBody"
    before: Known = {
        **now,
        name: {**now[name], "text": "0" * 16},
        shape: {**now[shape], "shape": "string 0..5"},
        "sqs.Gone.QueueUrl": {"shape": "string", "text": "0" * 16},
    }
    del before["ecs.RunTask.Cluster"]

    lines = changes(before, now)

    assert len(lines) == 4
    assert lines[0] == "- sqs.Gone.QueueUrl"
    assert any(f"! {name} (another text; long" in each for each in lines)
    assert any(f"! {shape} (shape; " in each for each in lines)
    assert any("! ecs.RunTask.Cluster (new; string)" in each for each in lines)
    assert documented()[name][1] in "\n".join(lines)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (
            "self._sqs.send_message(QueueUrl=url, MessageBody=text)",
            [("sqs", "send_message", ("QueueUrl", "MessageBody"))],
        ),
        (
            "client.get_paginator('list_tasks').paginate(cluster=name)",
            [("ecs", "list_tasks", ("cluster",))],
        ),
        (
            "partial(glue.get_database, Name=name)",
            [("glue", "get_database", ("Name",))],
        ),
        # A method of our own that has the name of an operation.
        ("self.queue.send_message(url=url)", []),
        ("transaction.update_schema()", []),
    ],
)
def test_calls_are_found_in_the_source_with_their_parameters(
    source: str, found: list[tuple[str, str, tuple[str, ...]]]
) -> None:
    (expression,) = ast.parse(source).body
    assert isinstance(expression, ast.Expr)

    assert list(aws_documentation._call(expression.value)) == found


def test_each_service_integration_is_there_with_the_paths_that_it_gives() -> None:
    names = {f"{service}.{name}" for service, name, _ in aws_documentation.integrations()}

    assert names == {"ecs.run_task", "emr-serverless.start_job_run", "lambda.invoke"}
    assert "ecs.RunTask.Overrides.ContainerOverrides.Environment.Value" in known()


def test_a_parameter_that_an_api_does_not_have_is_refused() -> None:
    model = aws_documentation._operations("ecs")["run_task"]

    with pytest.raises(AssertionError, match=r"RunTask has no parameter Overrides\.Sing"):
        aws_documentation._member(model, "Overrides.Sing")


def test_markup_is_no_text() -> None:
    assert aws_documentation.plain("<p>One  <code>two</code>\n</p>") == "One two"
