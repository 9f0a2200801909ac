"""How far Spark is, as its driver knows it."""

import logging
import threading
import time
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext

from longhaul.runner.spark.sample import SparkSample, StageCount

# A sample takes milliseconds.
_LAST_SAMPLE_S = 2
# A JVM that collects garbage for as long uses CPU time, which is work by itself.
_UNANSWERED_S = 60

logger = logging.getLogger(__name__)


@dataclass
class SparkWatch:
    """Samples Spark's status in a thread of its own: a call into a stuck JVM does not return."""

    context: SparkContext
    period_s: float
    has_executors: bool = False
    latest: SparkSample = SparkSample()  # noqa: RUF009 - frozen
    _seen: dict[int, StageCount] = field(default_factory=dict)
    _rows: dict[int, tuple[int, int]] = field(default_factory=dict)
    _stopped: threading.Event = field(default_factory=threading.Event)

    _thread: threading.Thread | None = None
    _sampled_at: float = 0.0

    def start(self) -> None:
        self._sampled_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="spark-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling. A sample on its way is waited for, unless the JVM is stuck."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(_LAST_SAMPLE_S)
        self._rest()

    def current(self) -> SparkSample:
        """The latest sample. Of a JVM that is stuck it says no more that tasks run."""
        if time.monotonic() - self._sampled_at < _UNANSWERED_S:
            return self.latest
        return replace(self.latest, runs_elsewhere=False)

    def is_spark_gone(self) -> bool:
        """Whether Spark has stopped, or its JVM is gone. Blocks if the JVM is stuck."""
        try:
            java = self.context._jsc  # noqa: SLF001 - PySpark does not say
            # None after `spark.stop()`, which a job may call before its own error gets here.
            return java is None or bool(java.sc().isStopped())
        except (Py4JError, OSError):
            return True

    def _rest(self) -> None:
        """Nothing runs on Spark any more. Tasks on executors would count as work for ever."""
        self.latest = replace(
            self.latest, active=(), runs_elsewhere=False, waits_for_executors=False
        )

    def _run(self) -> None:
        try:
            self._watch()
        finally:
            self._rest()

    def _watch(self) -> None:
        while not self._stopped.wait(self.period_s):
            try:
                self.latest = self._sample()
                self._sampled_at = time.monotonic()
            except (Py4JError, OSError):
                logger.debug("no sample of Spark's status")
                if self.is_spark_gone():  # the gateway notices the end of the JVM
                    return
            except AttributeError:
                if self.context._jsc is None:  # noqa: SLF001 - as above
                    return
                raise

    def _sample(self) -> SparkSample:
        tracker = self.context.statusTracker()
        active: list[StageCount] = []
        running = 0
        for stage_id in tracker.getActiveStageIds():
            stage = tracker.getStageInfo(stage_id)
            if stage is not None:
                active.append(StageCount(stage_id, stage.numCompletedTasks, stage.numTasks))
                running += stage.numActiveTasks
        ids = {stage.id for stage in active}
        # Also for stages that ended since the last sample: their last rows came at their end.
        for stage_id in ids | {stage.id for stage in self.latest.active}:
            self._rows[stage_id] = self._rows_of(stage_id)
        # A stage that is no longer active has done all its tasks.
        self._seen = {
            id_: stage if id_ in ids else StageCount(id_, stage.total, stage.total)
            for id_, stage in self._seen.items()
        } | {stage.id: stage for stage in active}
        return SparkSample(
            done=sum(stage.done for stage in self._seen.values()),
            total=sum(stage.total for stage in self._seen.values()),
            active=tuple(active),
            rows_read=sum(read for read, _ in self._rows.values()),
            rows_written=sum(written for _, written in self._rows.values()),
            runs_elsewhere=self.has_executors and running > 0,
            waits_for_executors=bool(active) and self.has_executors and not self._executors(),
        )

    def _executors(self) -> int:
        """How many have registered. The driver has a block manager, too."""
        return int(self.context._jsc.sc().getExecutorMemoryStatus().size()) - 1  # noqa: SLF001 - as below

    def _rows_of(self, stage_id: int) -> tuple[int, int]:
        """Rows that the ended tasks of a stage have read and written, without shuffles."""
        try:
            stage = self.context._jsc.sc().statusStore().lastStageAttempt(stage_id)  # noqa: SLF001 - the tracker has no metrics
        except Py4JJavaError:  # it has ended, and Spark keeps a thousand of these
            return self._rows.get(stage_id, (0, 0))
        return int(stage.inputRecords()), int(stage.outputRecords())
