"""A hundred jobs for eight slots, many of them killed, hung, stopped, cancelled or hopeless.

On the embedded AWS. Nothing is lost, and nothing is left.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from moto.dynamodb.models import dynamodb_backends

from longhaul.cli.local.aws import embedded_aws, roles_judge
from longhaul.cli.synth import PROFILE, synth
from longhaul.config.settings import CONTEXT_KEY
from longhaul.core.lease import Lease, State
from tests.e2e.conftest import STAND_IN, Stack, impatient
from tests.e2e.tripwire import Trap, Tripwire

pytestmark = pytest.mark.slow

SLOTS = 8
DEADLINE_S = 1800  # minutes on two cores of one's own
_LOG_LINES = 12


@dataclass(frozen=True)
class Kind:
    """`count` jobs with this plan, and how they end. `failures` are those that count."""

    count: int
    plan: tuple[str, ...]
    state: State = State.SUCCEEDED
    failures: int = 0
    changes: dict[str, Any] = field(default_factory=dict)


KINDS = {
    "good": Kind(60, ("ok",), changes={"work_s": 0.2}),
    "killed": Kind(8, ("killed", "ok"), failures=1),
    "killed-with-uploads": Kind(5, ("killed with uploads", "ok"), failures=1),
    "killed-after-its-commit": Kind(5, ("killed after its commit",)),
    "failing-once": Kind(5, ("fails", "ok"), failures=1),
    "silent-once": Kind(3, ("writes nothing", "ok"), failures=1),
    "poison": Kind(5, ("fails",), State.DEAD, 2, {"max_attempts": 2}),
    "hopeless": Kind(4, ("cannot succeed",), State.DEAD, 1),
    "overrunning": Kind(2, ("hangs", "ok"), failures=1, changes={"timeout": "60s"}),
    "stalled": Kind(2, ("hangs", "ok"), failures=1, changes={"stall_timeout": "40s"}),
    # It cannot tell that it is hung from one that the network cut off: not the job's fault.
    "frozen": Kind(2, ("hangs for good", "ok"), changes={"stall_timeout": "40s"}),
    "stopped": Kind(2, ("hangs", "ok")),
    "cancelled": Kind(2, ("ok",), State.CANCELLED, changes={"work_s": 600}),
}
TWICE = [f"good-{n}" for n in range(5)]
INVALID = [json.dumps({"job": "sql", "job_id": f"invalid-{n}"}) for n in range(5)]


def job_ids(kind: str) -> list[str]:
    return [f"{kind}-{n}" for n in range(KINDS[kind].count)]


def kind_of(row: Lease) -> Kind:
    return KINDS[row.job_id.rpartition("-")[0]]


@pytest.fixture
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    profile = json.loads(PROFILE.read_text())[CONTEXT_KEY]
    profile["stages"] = [{**profile["stages"][0], "slots": SLOTS}]
    assembly = synth(
        tmp_path_factory.mktemp("assembly") / "cdk.out", context={CONTEXT_KEY: profile}
    )
    assembly = impatient(
        assembly, tmp_path_factory.mktemp("impatient") / "cdk.out", visibility_s=40
    )
    folder = tmp_path_factory.mktemp("embedded-aws")
    with embedded_aws(folder, task_dir=STAND_IN, iam=roles_judge()) as aws:
        yield Stack(aws, aws.deploy(assembly, "Longhaul"))


def slots_taken(stack: Stack) -> int:
    backend = dynamodb_backends[stack.aws.account][stack.aws.region]
    item = backend.get_item(
        stack.outputs["LeasesTableName"], {"key": {"S": "slots#main"}, "item": {"S": "slots"}}
    )
    return int(item.attrs["running"].value) if item else 0


def test_of_a_hundred_jobs_none_is_lost_none_runs_twice_at_once_and_nothing_is_left(
    stack: Stack,
) -> None:
    taken: list[int] = []
    with Tripwire(
        stack.aws, after_each_transaction=lambda: taken.append(slots_taken(stack))
    ) as wire:
        traps = kill_functions(wire)
        send_all(stack)
        when_they_run(
            stack,
            {
                **dict.fromkeys(job_ids("stopped"), stop),
                **dict.fromkeys(job_ids("cancelled"), cancel),
            },
        )
        rows = [
            stack.row_when(job_id, lambda row: row.is_finished, "its end", DEADLINE_S)
            for kind in KINDS
            for job_id in job_ids(kind)
        ]
        stack.until_quiet(DEADLINE_S)
    assert [trap for trap in traps if not trap.sprung.is_set()] == []
    assert max(taken) == SLOTS
    wrong = [
        row
        for row in rows
        if (row.state, row.failures) != (kind_of(row).state, kind_of(row).failures)
    ]
    assert wrong == [], "\n".join(map(partial(attempts_of, stack), wrong))
    for row in rows:
        assert row.state is not State.SUCCEEDED or stack.rows(row.job_id) == [
            {"key": row.key, "attempt": row.attempt.number}
        ]
    every_dead_letter_is_there(stack, rows)
    no_job_ran_twice_at_once(stack)
    nothing_is_left(stack)


def kill_functions(wire: Tripwire) -> list[Trap]:
    """Dispatchers between claim and start, and before the answer; settles around their write.

    And a heartbeat.
    """
    return [
        wire.lay("StartExecution", "main#good-30", after=False),
        wire.lay("StartExecution", "main#good-55", after=True),
        wire.lay("TransactWriteItems", "main#good-40", "n_settled_attempt", after=False),
        wire.lay("TransactWriteItems", "main#good-50", "n_settled_attempt", after=True),
        wire.lay("TransactWriteItems", "main#poison-3", "n_settled_attempt", after=True),
        wire.lay("UpdateItem", "n_beats", after=False),
    ]


def send_all(stack: Stack) -> None:
    """Slow jobs first, so that they wait while the others run."""
    slow = [
        job_id
        for kind in ("stopped", "cancelled", "stalled", "frozen", "overrunning")
        for job_id in job_ids(kind)
    ]
    others = [job_id for kind in KINDS for job_id in job_ids(kind) if job_id not in slow]
    for job_id in (*slow, *others, *TWICE):
        kind = KINDS[job_id.rpartition("-")[0]]
        stack.send(stack.plan(job_id, *kind.plan, **kind.changes))
    for body in INVALID:
        stack.send(body)


def when_they_run(stack: Stack, acts: dict[str, Callable[[Stack, Lease], None]]) -> None:
    """Apply its act to each job once its first task has registered.

    The queue decides in which order they get their slots.
    """

    def all_done() -> bool:
        for job_id in list(acts):
            row = stack.row(job_id)
            if row and row.attempt.task_arn:
                acts.pop(job_id)(stack, row)
        return not acts

    stack.wait_for(all_done, f"{', '.join(acts)} to run", DEADLINE_S)


def cancel(stack: Stack, row: Lease) -> None:
    stack.leases.request_cancel(row.key, row.stage)


def stop(stack: Stack, row: Lease) -> None:
    stack.client("stepfunctions").stop_execution(executionArn=stack.execution_of(row))


def attempts_of(stack: Stack, row: Lease) -> str:
    """How each attempt of the job ended, with the end of its task's log."""
    told = [f"{row.job_id}: {row.state.value}, {row.failures} failures"]
    for record in stack.leases.history([row])[row.key]:
        arn = record.attempt.task_arn
        log = stack.aws.tasks.log_of(arn).read_text().splitlines()[-_LOG_LINES:] if arn else []
        told += [f"  {record.attempt.number}: {record.kind} {record.reason}", *log]
    return "\n".join(told)


def every_dead_letter_is_there(stack: Stack, rows: list[Lease]) -> None:
    """At least once: the settle that was killed after its write may have sent one twice."""
    sqs, letters = stack.client("sqs"), Counter[str]()
    arguments = {
        "QueueUrl": stack.outputs["DeadLetterQueueUrl"],
        "MaxNumberOfMessages": 10,
        "VisibilityTimeout": 600,
    }
    while messages := sqs.receive_message(**arguments, MessageAttributeNames=["All"]).get(
        "Messages"
    ):
        for message in messages:
            why = json.loads(message["MessageAttributes"]["longhaul"]["StringValue"])
            letters[f"{why['class']} {json.loads(message['Body'])['job_id']}"] += 1
    dead = {f"{row.last_class} {row.job_id}" for row in rows if row.state is State.DEAD}
    assert set(letters) == dead | {f"invalid_request invalid-{n}" for n in range(len(INVALID))}
    assert letters.total() <= len(letters) + 1


def tasks(stack: Stack) -> list[dict[str, Any]]:
    ecs = stack.client("ecs")
    (cluster,) = ecs.list_clusters()["clusterArns"]
    statuses = ("RUNNING", "STOPPED")
    arns = [
        arn
        for each in statuses
        for arn in ecs.list_tasks(cluster=cluster, desiredStatus=each)["taskArns"]
    ]
    pages = (arns[n : n + 100] for n in range(0, len(arns), 100))
    return [
        task for page in pages for task in ecs.describe_tasks(cluster=cluster, tasks=page)["tasks"]
    ]


def no_job_ran_twice_at_once(stack: Stack) -> None:
    of_job, ran_by_themselves = defaultdict(list), []
    for task in tasks(stack):
        (override,) = task["overrides"]["containerOverrides"]
        environment = {pair["name"]: pair["value"] for pair in override["environment"]}
        period = (task["startedAt"], task["stoppedAt"])
        of_job[environment["LONGHAUL_KEY"]].append(period)
        if task["stopCode"] == "EssentialContainerExited":
            ran_by_themselves.append(period)
    assert sum(map(len, of_job.values())) >= sum(kind.count for kind in KINDS.values())
    for key, periods in of_job.items():
        assert all(earlier[1] <= later[0] for earlier, later in pairwise(sorted(periods))), key
    # A task that we stopped has given its slot back, and may take seconds to end.
    changes = sorted(
        [(start, 1) for start, _ in ran_by_themselves] + [(end, -1) for _, end in ran_by_themselves]
    )
    running = most = 0
    for _, by in changes:
        running += by
        most = max(most, running)
    assert most <= SLOTS


def nothing_is_left(stack: Stack) -> None:
    """No task, no process, and after a sweep no upload and no list of one."""
    assert all(task["lastStatus"] == "STOPPED" for task in tasks(stack))
    assert [arn for arn, run in stack.aws.tasks._runs.items() if not run.end.done()] == []
    s3 = stack.client("s3")
    swept = stack.invoke("sweeper", {})
    assert (swept["looked_at"], swept["failed"]) == (0, 0)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=stack.bucket)
    assert "Contents" not in s3.list_objects_v2(Bucket=stack.bucket, Prefix="longhaul/pending/")
