"""Send what a stage's schedule has missed: a firing without a job, some time after its time.

Scheduler sends each firing, and tries for a day. What it could not send, or would have sent while
the schedule was disabled or taken out, has no job. Each firing is looked at once. A message that
Scheduler sent and that has waited since then gets a repeat, which is deleted as a duplicate.
"""

from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Final

from aws_lambda_powertools import Logger

from longhaul.context import Context
from longhaul.domain.firings import CaughtUp, missed_since
from longhaul.domain.lease import job_key
from longhaul.domain.message import Message
from longhaul.settings import CatchUp, Stage

logger = Logger(child=True)

_AFTER: Final = timedelta(minutes=15)
"""After its time a firing has its job as a rule: a sooner look would repeat what only waits."""

_MOST: Final = 100
"""Firings of a stage in one sweep: a schedule of each minute has five between two."""


@dataclass(frozen=True, kw_only=True)
class CatchingUp:
    context: Context

    def send_missed(self, stage: Stage, catch_up: CatchUp) -> int:
        """Send what the stage's schedule missed, the oldest first; returns how many messages.

        Raises what the services raise. A call that was cut off is repeated by the next: messages
        that were sent already are duplicates then.
        """
        schedule = self.context.schedules.load(catch_up.schedule)
        if schedule is None or not schedule.is_enabled:
            return 0
        now = self.context.clock.now()
        begin = missed_since(
            schedule,
            self.context.slots.caught_up(stage),
            now=now,
            within=timedelta(seconds=catch_up.within_s),
        )
        until = now - _AFTER
        firings = list(islice(schedule.firings(begin, until), _MOST))
        keys = {at: job_key(stage.name, schedule.job_id(at)) for at in firings}
        rows = self.context.leases.load_many(keys.values())
        missed = [at for at, key in keys.items() if key not in rows and key not in rows.unreadable]
        if missed:  # a refused firing has a dead letter: another would be refused as well
            refused = self.context.refusals.find_refusals(keys[at] for at in missed)
            missed = [at for at in missed if keys[at] not in refused]
        for at in missed:
            self.context.queue.send(stage.queue_url, Message(schedule.body(at), {}))
            logger.warning("a schedule's firing had no job: sent", extra={"lease": keys[at]})
        reached = firings[-1] if len(firings) == _MOST else max(begin, until)
        self.context.slots.note_caught_up(stage, CaughtUp(reached, schedule.plan))
        return len(missed)
