"""A job and its follow-ons as a tree of lines."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from longhaul.cli.display.job import row_of, wait_of
from longhaul.operations.runs import ORDER
from longhaul.operations.tree import TreeJob
from longhaul.operations.view import JobStatus


@dataclass(frozen=True)
class TreeLines:
    """Makes rows, as `display.job.row_of` does, of a job and of all that descends from it.

    Of the siblings in a stage at most `limit` have a line, those that need attention first; one
    more line counts the rest, and one says for how many a join waits.
    """

    known: Mapping[str, JobStatus]
    now: datetime
    limit: int

    def rows_of(self, job: TreeJob) -> Iterator[list[str]]:
        """The job itself, then its follow-ons."""
        yield self._line(job) if job.is_job else _cells(job.job_id, job.stage)
        yield from self._below(job, "")

    def _below(self, job: TreeJob, indent: str) -> Iterator[list[str]]:
        lines: list[tuple[TreeJob | None, list[str]]] = []
        for _, siblings in groupby(job.children, key=lambda child: child.stage):
            lines += self._of_stage(list(siblings))
        for n, (child, (name, job_id, *cells)) in enumerate(lines, 1):
            branch, below = ("└─ ", "   ") if n == len(lines) else ("├─ ", "│  ")
            yield [f"{indent}{branch}{name}", f"{indent}{branch}{job_id}", *cells]
            if child is not None:
                yield from self._below(child, indent + below)

    def _of_stage(self, siblings: Sequence[TreeJob]) -> Iterator[tuple[TreeJob | None, list[str]]]:
        """The lines of the siblings of one stage, each with the job below which others stand."""
        begun = [each for each in siblings if each.lease or each.is_unreadable]
        urgent = sorted(begun, key=lambda job: ORDER.index(job.state))[: self.limit]
        shown = {job.key for job in urgent}
        yield from ((each, self._line(each)) for each in siblings if each.key in shown)
        stage = siblings[0].stage
        if rest := [each for each in siblings if each.key in self.known and each.key not in shown]:
            counts = Counter(each.state for each in rest)
            states = ", ".join(f"{count:,} {state}" for state, count in counts.most_common())
            waits = {wait_of(self.known[each.key], self.now) for each in rest if not each.lease}
            why = "; ".join(filter(None, (states, *waits)))
            yield None, _cells(f"… {len(rest):,} more", stage, why)
        for each in siblings:
            if each.waits_for:
                yield None, _cells(f"waits for {each.waits_for:,} of {each.collects:,}", stage)

    def _line(self, job: TreeJob) -> list[str]:
        return row_of(self.known[job.key], self.now)


def _cells(text: str, stage: str, why: str = "") -> list[str]:
    """A line that is of no row."""
    return [text, text, "", "", stage, "", "", "", why]
