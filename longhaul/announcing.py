"""Tell others that a run has ended: a stage's `notify`.

A notice is owed with the delete. So it comes after the publication, the follow-ons and the dead
letter, and is repeated by whoever finishes the row. docs/events.md says what that promises.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from aws_lambda_powertools import Logger

from longhaul.domain import notice
from longhaul.domain.dead_letter import Reason
from longhaul.domain.errors import NoticeRefusedError, NotNotifiedError
from longhaul.domain.lease import Lease
from longhaul.metrics import NoticeMetric
from longhaul.ports import Clock, Metrics, Notices
from longhaul.settings import Stage

logger = Logger(child=True)

REFUSED_FOR = timedelta(minutes=15)
"""A target that refuses is tried for so long: a new permission takes minutes to take effect."""

UNREACHED_FOR = timedelta(hours=24)
"""A target that cannot be reached is tried for so long, as EventBridge tries its own targets."""


@dataclass(frozen=True, kw_only=True)
class Announcer:
    clock: Clock
    notices: Notices
    metrics: Metrics

    def ended(self, lease: Lease, stage: Stage, until: datetime | None = None) -> None:
        """Tell that a run has ended, unless `until` has passed; repeatable.

        A notice that could not be sent for too long is lost, so that the job's message can go.

        Raises:
            NotNotifiedError: it is to be tried again.
        """
        # Without a message the row is a cancel mark that met none: no job has ended.
        if stage.notify is None or not lease.receive.message_id:
            return
        now = self.clock.now()
        if until is not None and now >= until:
            raise NotNotifiedError("no time left in this invocation")
        try:
            self.notices.send(stage.notify, notice.ended(lease))
        except Exception as error:
            # Any error: a mistake of the target's must not keep the job's message for ever.
            tried_for = now - lease.ended_at
            most = REFUSED_FOR if isinstance(error, NoticeRefusedError) else UNREACHED_FOR
            if tried_for < most:
                logger.warning(
                    "not notified: tried again", extra={"lease": lease.key, "why": str(error)}
                )
                raise NotNotifiedError(str(error)) from error
            logger.exception("a notice is lost", extra={"lease": lease.key})
            self._count(stage)

    def refused(self, stage: Stage, reason: Reason, message_id: str | None = None) -> None:
        """Tell that a message became a dead letter without a run.

        Tried once, with the retries of the SDK: no row could owe it, and to keep the message for it
        would send the dead letter again.
        """
        if stage.notify is None:
            return
        told = notice.refused(stage.name, reason, message_id, self.clock.now())
        try:
            self.notices.send(stage.notify, told)
        except Exception:
            logger.exception("a notice is lost", extra={"lease": reason.key or message_id})
            self._count(stage)

    def _count(self, stage: Stage) -> None:
        self.metrics.put({NoticeMetric.LOST: 1}, stage=stage.name)
