"""Tell others that a run has ended: a stage's `notify`.

A notice comes after the publication, the follow-ons and the dead letter. What cannot be sent is a
debt of its own from then on: the sweeper tries it again, and no run, wait, backfill or tree waits
for it. docs/reference/events.md says what that promises.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from aws_lambda_powertools import Logger

from longhaul.core.dead_letter import Reason
from longhaul.core.errors import NoticeRefusedError, NotNotifiedError
from longhaul.core.lease import Lease, State
from longhaul.core.metrics import NoticeMetric
from longhaul.core.ports import Context
from longhaul.core.request import read_request
from longhaul.core.settings import Stage
from longhaul.core.sweep import Sweep
from longhaul.notices import notice
from longhaul.notices.openlineage import Place, run_events
from longhaul.outputs.lineage import origin, requested
from longhaul.outputs.pending import Publisher
from longhaul.pipelines.backfill import Backfill, TreeEnd

logger = Logger(child=True)

REFUSED_FOR = timedelta(minutes=15)
"""A target that refuses is tried for so long: a new permission takes minutes to take effect."""

UNREACHED_FOR = timedelta(hours=24)
"""A target that cannot be reached is tried for so long, as EventBridge tries its own targets."""

_SHOWN = 300
"""Characters of a lost notice in the log: up to its job, and its label."""

_HANGS = timedelta(seconds=3)
"""A call that fails after so long has met a target that does not answer: others fail faster."""

_SPARED_FOR = timedelta(minutes=1)
"""A target that does not answer is left alone for so long.

Each call takes 14 s. Where some hundred jobs end, all functions would do nothing else.
"""


class Notices(Protocol):
    def send(self, target: str, notice: notice.Notice) -> None:
        """Send to the bus, topic or queue of this ARN; repeatable.

        Raises NoticeRefusedError when it will not be taken until people change something.
        """


class UntoldNotices(Protocol):
    """What a stage owes to the target of its notices. Nothing else waits for it."""

    def owe(self, stage: str, notice: notice.Notice, now: datetime) -> None:
        """Note a notice that could not be sent."""

    def owed(self, stage: str) -> Iterator[notice.Untold]:
        """Those of a stage, in another order each time; a little late."""

    def strike(self, untold: notice.Untold) -> None:
        """It was sent, or is lost."""


@dataclass(frozen=True, kw_only=True)
class Announcer:
    context: Context
    notices: Notices
    untold: UntoldNotices
    publisher: Publisher
    hung: dict[str, datetime] = field(default_factory=dict)  # when a target did not answer, by ARN

    def ended(self, lease: Lease, stage: Stage, until: datetime | None = None) -> None:
        """Tell that a run has ended; repeatable.

        Args:
            lease: Its row.
            stage: Its stage.
            until: When there is no time left to try it.
        """
        # A cancel mark that met no message: no job has ended.
        is_no_end = lease.state is State.CANCELLED and not lease.receive.message_id
        if stage.notify is None or is_no_end:
            return
        self._tell(stage, notice.ended(lease), until)
        # Before the first claim no run began.
        if stage.openlineage and not lease.is_mark:
            for event in self._run_events(lease):
                self._tell(stage, event, until)

    def tree_ended(
        self,
        root: Lease | Backfill,
        end: TreeEnd,
        stage: Stage,
        until: datetime | None = None,
    ) -> None:
        """Tell that a tree, or a backfill, has ended; repeatable.

        Args:
            root: The row of its first job; or the backfill.
            end: How it has ended.
            stage: The stage of its first job.
            until: When there is no time left to try it.
        """
        if stage.notify is not None:
            self._tell(stage, notice.tree_ended(root, end), until)

    def refused(
        self,
        stage: Stage,
        reason: Reason,
        message_id: str | None = None,
        until: datetime | None = None,
    ) -> None:
        """Tell that a message became a dead letter under the id of another job's row."""
        if stage.notify is not None:
            now = self.context.clock.now()
            self._tell(stage, notice.refused(stage.name, reason, message_id, now), until)

    def look_after(self, sweep: Sweep) -> None:
        """Send the notices that could not be sent when what they tell of had ended."""
        for stage in self.context.settings.stages:
            with sweep.guard(stage.name):
                self.tell_again(stage, sweep.report.publish_until)

    def tell_again(self, stage: Stage, until: datetime | None = None) -> None:
        """Send what the stage owes; what could not be sent for too long is lost."""
        if stage.notify is None:
            return
        for untold in self.untold.owed(stage.name):
            if until is not None and self.context.clock.now() >= until:
                return
            try:
                self._send(stage.notify, untold.notice, until)
            except Exception as error:
                is_refused, now = isinstance(error, NoticeRefusedError), self.context.clock.now()
                if not is_refused:
                    self.hung[stage.notify] = now  # the others of this sweep do not ask it
                if now - untold.since < (REFUSED_FOR if is_refused else UNREACHED_FOR):
                    continue
                logger.exception("a notice is lost", extra={"notice": untold.notice.body[:_SHOWN]})
                self.context.metrics.put({NoticeMetric.LOST: 1}, stage=stage.name)
            self.untold.strike(untold)

    def _tell(self, stage: Stage, told: notice.Notice, until: datetime | None) -> None:
        try:
            self._send(stage.notify or "", told, until)
        except Exception as error:  # noqa: BLE001 - a target's mistake must hold up no job
            logger.warning("not notified: tried again", extra={"id": told.id, "why": str(error)})
            self.untold.owe(stage.name, told, self.context.clock.now())

    def _run_events(self, lease: Lease) -> list[notice.Notice]:
        """The run as OpenLineage says it.

        Of a success with the inputs as its attempt read them, while its pending list has them; else
        with the paths that the request names.
        """
        output = lease.attempt.output if lease.state is State.SUCCEEDED else None
        read = self.publisher.origin(lease.id) if output else None
        settings = self.context.settings
        if read is None:
            body = self.context.requests.get(lease.request_ref).body
            asked = read_request(body, settings.paths)
            named = (requested(name, path) for name, path in asked.inputs.items())
            read = origin(lease.id, lease.ended_at, named)
        place = Place.of(settings.state_machine_arn, settings.metrics_namespace)
        return run_events(lease, read, place)

    def _send(self, target: str, told: notice.Notice, until: datetime | None) -> None:
        """Send it.

        Raises:
            NotNotifiedError: the target was not asked: `until` has passed, or it did not answer a
                moment ago.
        """
        began_at = self.context.clock.now()
        if until is not None and began_at >= until:
            raise NotNotifiedError("the function's time is up")
        hung_at = self.hung.get(target)
        if hung_at is not None and began_at - hung_at < _SPARED_FOR:
            raise NotNotifiedError("the target did not answer a moment ago")
        try:
            self.notices.send(target, told)
        except Exception:
            ended_at = self.context.clock.now()
            if ended_at - began_at >= _HANGS:
                self.hung[target] = ended_at
            raise
