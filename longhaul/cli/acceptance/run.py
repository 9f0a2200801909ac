"""A trial of a deployed stack: its cases, their jobs, and what they leave behind."""

from collections.abc import Sequence

from longhaul.cli.acceptance import cases
from longhaul.cli.acceptance.cases import Case, Pipeline, Trial
from longhaul.cli.acceptance.legs import Expectations
from longhaul.cli.acceptance.remains import Remains
from longhaul.cli.acceptance.soak import Soak, soaked
from longhaul.cli.acceptance.soak import trials as soak_trials
from longhaul.cli.acceptance.verdicts import Result, Verdict, judge, not_run
from longhaul.cli.acceptance.watcher import Hands, Observed, Watcher
from longhaul.cli.tables.reader import TableReader
from longhaul.cli.target import Target
from longhaul.cli.terminal.output import Output
from longhaul.domain.job_state import shown_state
from longhaul.settings import Stage

_AT_ONCE = 4
"""Jobs at a time, where the stage has the slots: a new account may run as few as 4 vCPU."""

_STYLES = {Verdict.PASSED: "green", Verdict.FAILED: "red", Verdict.NOT_RUN: "yellow"}


class Run:
    """One run of the command, with a name that all its jobs share."""

    def __init__(
        self, out: Output, target: Target, stage: Stage, pipeline: Pipeline | None
    ) -> None:
        parts = target.parts
        self._out, self._target, self._stage, self._pipeline = out, target, stage, pipeline
        self._name = f"verify-{parts.clock.now():%Y%m%d-%H%M%S}-{parts.rng.getrandbits(24):06x}"
        self._expectations = Expectations(target.settings.lease)
        self._watchers: list[Watcher] = []
        self._remains = Remains(
            clock=parts.clock,
            jobs=target.jobs,
            counter=target.stage_counter,
            executions=parts.executions,
            letters=target.dead_letters,
            canceller=target.canceller,
            s3=target.client("s3"),
            tables=TableReader(
                target.client("glue"), target.client("s3"), target.settings.paths.table_databases
            ),
            bucket=target.settings.paths.data_bucket,
            timing=target.settings.lease,
        )

    @property
    def _stages(self) -> list[Stage]:
        stages = [self._stage]
        if self._pipeline is not None:
            stages += [self._pipeline.first, self._pipeline.members, self._pipeline.join]
        return list({each.name: each for each in stages}.values())

    def all_cases(self) -> tuple[list[Result], Sequence[Observed]]:
        before = self._remains.quiet(self._stages)
        missing, some = self._missing(), cases.some_of(self._target.settings)
        tried = [*cases.CASES, *(each for each in some if each not in missing)]
        trials = [self.trial(case, case.name) for case in tried]
        results = []
        watcher = self._watcher()
        for each in watcher.watch(trials, self._at_once):
            result = self._judged(each)
            results.append(result)
            self._out.note(
                f"{result.name}: {result.verdict.value}: {result.happened}",
                style=_STYLES[result.verdict],
            )
        order = [case.name for case in tried]
        results.sort(key=lambda each: order.index(each.name))
        results += [not_run(case, do) for case, do in missing.items()]
        self._remains.stop(watcher.seen)
        rows = [row for each in watcher.seen for row in each.rows]
        self._out.note("waiting for the last executions, and for the queue to be empty")
        results.append(self._remains.look(rows, self._stages, before))
        self._remains.clear(watcher.seen)
        return results, watcher.seen

    def _missing(self) -> dict[Case, str]:
        """The cases that this stack cannot run, and the way out of each."""
        missing = {}
        if self._pipeline is None:
            missing[cases.FAN_OUT] = cases.NO_PIPELINE
        if not self._target.settings.paths.table_databases:
            missing[cases.TABLE] = cases.NO_DATABASE
        return missing

    def soak(self, seconds: float) -> Soak:
        watcher = self._watcher(quietly=True)
        soak = soak_trials(self.trial, self._target.parts.clock, seconds)
        for number, _ in enumerate(watcher.watch(soak, self._at_once), start=1):
            if number % 10 == 0:
                self._out.note(f"soak: {number} jobs are over")
        self._remains.stop(watcher.seen)
        self._remains.clear(watcher.seen)
        return soaked(watcher.seen, seconds)

    def trial(self, case: Case, name: str) -> Trial:
        job_id = f"{self._name}-{name}"
        output = cases.output_of(case, job_id, self._target.settings)
        text = cases.body(case, job_id, output, self._pipeline)
        if case.members and self._pipeline is not None:
            return Trial(case, self._pipeline.first, job_id, text, self._pipeline.join)
        return Trial(case, self._stage, job_id, text)

    def abandon(self) -> None:
        """Cancel what runs, and clear away what has ended."""
        for watcher in self._watchers:
            self._remains.stop(watcher.seen)
            self._remains.clear(watcher.seen)

    @property
    def _at_once(self) -> int:
        return min(_AT_ONCE, self._stage.slots)

    def _watcher(self, *, quietly: bool = False) -> Watcher:
        parts = self._target.parts
        watcher = Watcher(
            clock=parts.clock,
            leases=parts.leases,
            jobs=self._target.jobs,
            queue=parts.queue,
            letters=self._target.dead_letters,
            hands=Hands(
                self._target.canceller,
                parts.tasks,
                parts.executions,
                self._target.client("stepfunctions"),
            ),
            expectations=self._expectations,
            on_change=(lambda _: None) if quietly else self._show,
        )
        self._watchers.append(watcher)
        return watcher

    def _judged(self, observed: Observed) -> Result:
        histories = self._target.parts.leases.history(observed.rows)
        return judge(observed, histories, self._remains.rows_of(observed.rows), self._expectations)

    def _show(self, observed: Observed) -> None:
        row = observed.row
        text = "sent" if row is None else f"{shown_state(row)}, attempt {row.attempt.number}"
        self._out.note(f"{observed.trial.case.name}: {text}")
