"""Tell others that a run has ended: a stage's `notify`.

A notice is owed with the delete. So it comes after the publication, the follow-ons and the dead
letter, and is repeated by whoever finishes the row. docs/events.md says what that promises.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from aws_lambda_powertools import Logger

from longhaul.context import Context
from longhaul.domain import notice
from longhaul.domain.backfill import Backfill
from longhaul.domain.dead_letter import Reason
from longhaul.domain.errors import NoticeRefusedError, NotNotifiedError, TimeUpError
from longhaul.domain.lease import Lease, State
from longhaul.domain.openlineage import Place, run_events
from longhaul.domain.provenance import origin, requested
from longhaul.domain.request import read_request
from longhaul.domain.tree_end import TreeEnd
from longhaul.metrics import NoticeMetric
from longhaul.settings import Stage

logger = Logger(child=True)

REFUSED_FOR = timedelta(minutes=15)
"""A target that refuses is tried for so long: a new permission takes minutes to take effect."""

UNREACHED_FOR = timedelta(hours=24)
"""A target that cannot be reached is tried for so long, as EventBridge tries its own targets."""

_HANGS = timedelta(seconds=3)
"""A call that fails after so long has met a target that does not answer: others fail faster."""

_SPARED_FOR = timedelta(minutes=1)
"""A target that does not answer is left alone for so long.

Each call takes 14 s. With a notice owed by each of some hundred jobs, all dispatchers would do
nothing else.
"""


@dataclass(frozen=True, kw_only=True)
class Announcer:
    context: Context
    hung: dict[str, datetime] = field(default_factory=dict)  # when a target did not answer, by ARN

    def ended(self, lease: Lease, stage: Stage, until: datetime | None = None) -> None:
        """Tell that a run has ended, unless `until` has passed; repeatable.

        A notice that could not be sent for too long is lost, so that the job's message can go.

        Raises:
            TimeUpError: it was not tried.
            NotNotifiedError: it could not be sent, and is to be tried again.
        """
        # A cancel mark that met no message: no job has ended.
        is_no_end = lease.state is State.CANCELLED and not lease.receive.message_id
        if stage.notify is None or is_no_end:
            return
        try:
            self._send(stage.notify, notice.ended(lease), until)
            # Before the first claim no run began.
            if stage.openlineage and not lease.is_mark:
                for event in self._run_events(lease):
                    self._send(stage.notify, event, until)
        except TimeUpError:
            raise
        except Exception as error:  # noqa: BLE001 - a target's mistake must not keep the message
            self._try_again_or_lose(stage, lease.key, lease.untold_at, error)

    def tree_ended(
        self,
        root: Lease | Backfill,
        end: TreeEnd,
        stage: Stage,
        tried_at: datetime | None,
        until: datetime | None = None,
    ) -> None:
        """Tell that a tree, or a backfill, has ended, unless `until` has passed; repeatable.

        Args:
            root: The row of its first job; or the backfill.
            end: How it has ended.
            stage: The stage of its first job.
            tried_at: When that was first tried in vain.
            until: When there is no time left.

        Raises:
            TimeUpError: it was not tried.
            NotNotifiedError: it could not be sent, and is to be tried again.
        """
        if stage.notify is None:
            return
        try:
            self._send(stage.notify, notice.tree_ended(root, end), until)
        except TimeUpError:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            self._try_again_or_lose(stage, root.key, tried_at, error)

    def _try_again_or_lose(
        self, stage: Stage, key: str, tried_at: datetime | None, error: Exception
    ) -> None:
        """What could not be sent is tried again, for some time from the first try on."""
        now = self.context.clock.now()
        tried_for = now - (tried_at or now)
        most = REFUSED_FOR if isinstance(error, NoticeRefusedError) else UNREACHED_FOR
        if tried_for < most:
            logger.warning("not notified: tried again", extra={"lease": key, "why": str(error)})
            raise NotNotifiedError(str(error)) from error
        logger.error("a notice is lost", extra={"lease": key}, exc_info=error)
        self._count(stage)

    def _run_events(self, lease: Lease) -> list[notice.Notice]:
        """The run as OpenLineage says it.

        Of a success with the inputs as its attempt read them, while its pending list has them; else
        with the paths that the request names.
        """
        output = lease.attempt.output if lease.state is State.SUCCEEDED else None
        read = self.context.publisher.origin(lease.id) if output else None
        settings = self.context.settings
        if read is None:
            body = self.context.requests.get(lease.request_ref).body
            asked = read_request(body, settings.paths.data_bucket)
            named = (requested(name, path) for name, path in asked.inputs.items())
            read = origin(lease.id, lease.ended_at, named)
        place = Place.of(settings.state_machine_arn, settings.metrics_namespace)
        return run_events(lease, read, place)

    def refused(
        self,
        stage: Stage,
        reason: Reason,
        message_id: str | None = None,
        until: datetime | None = None,
    ) -> None:
        """Tell that a message became a dead letter without a run, unless `until` has passed.

        Tried once, with the retries of the SDK: no row could owe it, and to keep the message for it
        would send the dead letter again. For the same reason it comes after the dead letter's
        message was struck off.
        """
        if stage.notify is None:
            return
        told = notice.refused(stage.name, reason, message_id, self.context.clock.now())
        try:
            self._send(stage.notify, told, until)
        except Exception:
            logger.exception("a notice is lost", extra={"lease": reason.key or message_id})
            self._count(stage)

    def _send(self, target: str, told: notice.Notice, until: datetime | None) -> None:
        """Send it.

        Raises:
            TimeUpError: `until` has passed, and the target was not asked.
            NotNotifiedError: nor was it asked, because it did not answer a moment ago.
        """
        began_at = self.context.clock.now()
        if until is not None and began_at >= until:
            raise TimeUpError
        hung_at = self.hung.get(target)
        if hung_at is not None and began_at - hung_at < _SPARED_FOR:
            raise NotNotifiedError("the target did not answer a moment ago")
        try:
            self.context.notices.send(target, told)
        except Exception:
            ended_at = self.context.clock.now()
            if ended_at - began_at >= _HANGS:
                self.hung[target] = ended_at
            raise

    def _count(self, stage: Stage) -> None:
        self.context.metrics.put({NoticeMetric.LOST: 1}, stage=stage.name)
