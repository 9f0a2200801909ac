"""The actions of the page: cancel, retry, rerun, redrive, with the commands' own use cases."""

from collections.abc import Sequence
from dataclasses import dataclass

from longhaul.cli.display.dead_letter import name_of
from longhaul.cli.display.job import cancelled_as
from longhaul.cli.target import Target
from longhaul.domain.lease import State, job_key
from longhaul.operations.dead_letters import Which


@dataclass(frozen=True)
class Notice:
    """The result of an action."""

    text: str
    good: bool = True


class Actions:
    def __init__(self, target: Target) -> None:
        self._target = target

    def cancel(self, stage: str, job_id: str) -> Notice:
        lease = self._target.canceller.cancel(stage, job_id)
        return Notice(
            f"{job_id}: {cancelled_as(lease)}",
            good=not lease.state.is_terminal or lease.state is State.CANCELLED,
        )

    def retry(self, stage: str, job_id: str) -> Notice:
        lease = self._target.parts.leases.load(job_key(stage, job_id))
        if lease is None:
            return Notice(f"nothing is known of job {job_id}", good=False)
        self._target.retrier.retry(lease)
        if lease.state is not State.DEAD:
            return Notice(f"{job_id} was sent again")
        return Notice(
            f"{job_id} was sent again; its dead letter is still there: "
            "`longhaul dlq drop` once the job has succeeded"
        )

    def rerun(self, stage: str, job_id: str) -> Notice:
        """Run an ended job again with its request, a success as another job."""
        lease = self._target.parts.leases.load(job_key(stage, job_id))
        if lease is None:
            return Notice(f"nothing is known of job {job_id}", good=False)
        self._target.open_stage(stage)
        planned = self._target.rerunner.plan(lease, params={})
        self._target.rerunner.send(planned)
        return Notice(f"{job_id} runs again as {planned.submission.job_id}")

    def redrive(self, stage: str, message_ids: Sequence[str]) -> Notice:
        """Send back exactly these letters; later ones are left alone."""
        where = self._target.stage(stage)
        handled = self._target.dead_letters.redrive(
            where, Which(message_ids=frozenset(message_ids))
        )
        parts = [f"{handled.done} sent back to the jobs queue"]
        parts += [f"{name_of(letter)} was not: {problem}" for letter, problem in handled.failed]
        gone = len(set(message_ids)) - handled.done - len(handled.failed)
        parts += [f"{gone} were no longer there, or another process holds them"] if gone else []
        return Notice("; ".join(parts), good=handled.done == len(set(message_ids)))
