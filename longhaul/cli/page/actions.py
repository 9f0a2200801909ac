"""The actions of the page, with the commands' own use cases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from longhaul.cli.display.text import counted
from longhaul.cli.sentences import OURS
from longhaul.cli.target import Target
from longhaul.operations.named import find_at
from longhaul.operations.tree import unwell
from longhaul.operations.view import cancelled_as, is_stopped, name_of

_NAMED = 5  # jobs that a result names
_RUNS_AGAIN = "runs again"


@dataclass(frozen=True)
class Notice:
    """The result of an action."""

    text: str
    good: bool = True


class Actions:
    def __init__(self, target: Target) -> None:
        self._target = target
        self.sent: set[tuple[str, int]] = set()  # key and run of what runs again: no row says so

    def cancel(self, keys: Sequence[str]) -> Notice:
        """Cancel exactly these jobs, each by itself."""
        told: dict[str, list[str]] = {}
        stopped = []
        for key in keys:
            stage, _, job_id = key.partition("#")
            row = self._target.canceller.cancel(stage, job_id)
            told.setdefault(cancelled_as(row), []).append(name_of(row))
            stopped.append(is_stopped(row))
        return Notice(_said(told), all(stopped))

    def rerun(self, keys: Sequence[str]) -> Notice:
        """Run exactly these jobs again, as far as each can."""
        rows = self._target.parts.leases.load_many(keys)
        unknown = [key.partition("#")[2] for key in keys if key not in rows]
        told: dict[str, list[str]] = {"nothing is known of it": unknown} if unknown else {}
        for row in rows.values():
            try:
                self._target.open_stage(row.stage)
                self._target.rerunner.send(self._target.rerunner.plan(row))
            except OURS as error:
                told.setdefault(str(error), []).append(name_of(row))
            else:
                self.sent.add((row.key, row.run))
                told.setdefault(_RUNS_AGAIN, []).append(name_of(row))
        return Notice(_said(told), good=[*told] == [_RUNS_AGAIN])

    def cancel_run(self, keys: Sequence[str]) -> Notice:
        """Cancel a job and all that descends from it, or the jobs of a backfill."""
        work = find_at(self._target, keys[0])
        if work is None:
            return self.cancel(keys)
        return Notice(f"{counted(len(work.cancel(self._target)), 'job')} cancelled")

    def rerun_dead(self, keys: Sequence[str]) -> Notice:
        """Run again what died or was cancelled below a job, itself included, or of a backfill."""
        work = find_at(self._target, keys[0])
        return self.rerun([row.key for row in unwell(work.tree(self._target))] if work else keys)

    def pause(self, stages: Sequence[str]) -> Notice:
        """Let no job of a stage start."""
        target, (stage,) = self._target, stages
        target.parts.slots.pause(target.stage(stage), target.parts.clock.now())
        return Notice(f"{stage} is paused: what runs goes on, and messages wait")

    def resume(self, stages: Sequence[str]) -> Notice:
        """Let the jobs of a paused stage start again."""
        target, (stage,) = self._target, stages
        target.parts.slots.resume(target.stage(stage), target.parts.clock.now())
        return Notice(f"{stage} goes on: what waits is looked at within half an hour")


def _said(told: Mapping[str, Sequence[str]]) -> str:
    """What happened, with the names of the jobs that it happened to."""
    said = []
    for what, names in told.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        said.append(f"{', '.join(names[:_NAMED])}{more}: {what}")
    return "; ".join(said) or "none has died or was cancelled"
