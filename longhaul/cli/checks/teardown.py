"""Whether a stack can be deleted: that it is at rest, and that no message would be lost."""

from collections.abc import Iterator

from longhaul.cli.checks.finding import Finding, ok, problem
from longhaul.operations.drain import AT_REST, Drainer

_DRAIN = "run `longhaul stage drain`, with --stop if what runs need not finish"


def findings(drainer: Drainer) -> Iterator[Finding]:
    yield from rest(drainer)
    yield from queues(drainer)


def rest(drainer: Drainer) -> Iterator[Finding]:
    """Whether nothing runs and nothing starts."""
    findings = []
    if not drainer.is_paused():
        findings.append("a stage is not paused, so jobs still start")
    if going := str(drainer.activity()):
        findings.append(
            f"{going} still there: the state machine would stay in DELETING, and tasks hold the "
            "network"
        )
    state = drainer.application_state()
    if state not in AT_REST:
        findings.append(f"the EMR Serverless application is {state}, and must be stopped")
    if findings:
        yield problem(f"rest: {'; '.join(findings)}", _DRAIN)
    else:
        yield ok("rest: all stages are paused, and nothing runs")


def queues(drainer: Drainer) -> Iterator[Finding]:
    """Whether messages would be deleted with their queues."""
    waiting = [each for each in drainer.waiting() if each.queued or each.dead_letters]
    for each in waiting:
        yield problem(
            f"queues: {each.queued} messages and {each.dead_letters} dead letters of stage "
            f"{each.stage.name} would be deleted with the stack",
            "`longhaul stage drain --undo` lets the jobs run, `longhaul cancel` ends one, and "
            "`longhaul dlq drop --all` drops the letters; or purge the queue "
            "(`aws sqs purge-queue`), if they are not wanted",
        )
    if not waiting:
        yield ok("queues: no message waits")
