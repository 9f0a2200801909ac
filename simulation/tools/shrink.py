"""The smallest plan that still shows a violation.

Faults, acts, jobs and settings that the violation does not need are left out.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from simulation.worlds.plan import Mix, Plan
from simulation.worlds.run import Violation, run

_MOST_RUNS = 600


class Shrinker:
    """Tries smaller plans, and keeps each that violates the same invariant."""

    def __init__(self, violation: Violation, most_runs: int = _MOST_RUNS) -> None:
        self.found = violation
        self._runs = most_runs

    def shrink(self) -> Violation:
        """The smallest plan found within the permitted runs."""
        before = None
        while before != self.found.plan and self._runs > 0:
            before = self.found.plan
            self._leave_out("faults")
            self._leave_out("acts")
            self._leave_out_jobs()
            self._simplify()
        return self.found

    def _holds(self, plan: Plan) -> bool:
        """Whether this plan violates the same invariant; if so, keep it."""
        if self._runs <= 0 or plan == self.found.plan:
            return False
        self._runs -= 1
        violation = run(plan).violation
        if violation is None or violation.code != self.found.code:
            return False
        # Its plan names the faults that fired, which may be fewer than were planned.
        self.found = violation
        return True

    def _leave_out(self, what: str) -> None:
        """Try without halves, quarters, and so on, down to single items."""
        size = len(getattr(self.found.plan, what))
        while size >= 1 and self._runs > 0:
            start = 0
            while start < len(items := getattr(self.found.plan, what)):
                if not self._holds(
                    replace(self.found.plan, **{what: items[:start] + items[start + size :]})
                ):
                    start += size
            size //= 2

    def _leave_out_jobs(self) -> None:
        for job in self.found.plan.jobs:
            plan = self.found.plan
            acts = tuple(act for act in plan.acts if act.job != job.name)
            jobs = tuple(each for each in plan.jobs if each is not job)
            self._holds(replace(plan, jobs=jobs, acts=acts))

    def _simplify(self) -> None:
        for changes in _SIMPLER_PLANS:
            self._holds(replace(self.found.plan, **changes))
        for changes in _SIMPLER_MIXES:
            self._holds(replace(self.found.plan, mix=replace(self.found.plan.mix, **changes)))
        fewer = [replace(job, endings=job.endings[:-1]) for job in self.found.plan.jobs]
        self._holds(replace(self.found.plan, jobs=tuple(fewer)))
        for number in range(len(self.found.plan.jobs)):
            for changes in _SIMPLER_JOBS:
                plan = self.found.plan
                job = plan.jobs[number]
                simple = replace(job, **changes)
                # A job that did not fan out stays so: fanning out is no simpler, and the world
                # may have no stage for it.
                if simple != job and (simple.fan_out or 0) <= (job.fan_out or 0):
                    jobs = (*plan.jobs[:number], simple, *plan.jobs[number + 1 :])
                    self._holds(replace(plan, jobs=jobs))


_SIMPLER_JOBS: Sequence[dict[str, Any]] = (
    {"endings": (), "poison": False},
    {"poison": False},
    {"fan_out": None},
    {"fan_out": 1},
    {"fan_out": 2},
    {"files": 1},
    {"compacts": False},
    {"output": ""},
    {"beside": False},
    {"named": True},
    {"max_attempts": None},
    {"stall_timeout_s": None},
    {"timeout_s": None},
    {"work_s": 30.0},
)


_SIMPLER_PLANS: Sequence[dict[str, Any]] = (
    {"mix": Mix()},
    {"slots": 10},
    {"clean_slots": 0},
    {"renew_receives": 900},
    {"spot": False},
    {"max_attempts": 3},
)
_SIMPLER_MIXES: Sequence[dict[str, Any]] = (
    {"skew_s": 0.0},
    {"stale_handles": "fail"},
    {"index_lag_s": 0.0},
    {"reorder": False},
    {"timeout_stops_task": True},
    {"short_pages": False},
    {"calls": 0.0, "kinds": (), "swarm": False, "invokes": 0.0, "events": 0.0, "launches": 0.0},
)
