"""Cancel a job, wherever it is: queued, waiting for its next attempt, or running."""

from dataclasses import dataclass

from longhaul.domain.errors import LeaseChangedError
from longhaul.domain.lease import Lease, State, job_key
from longhaul.domain.outcome import cancel_waiting
from longhaul.finish import Finisher
from longhaul.ports import Clock, LeaseStore


@dataclass(frozen=True)
class Canceller:
    clock: Clock
    leases: LeaseStore
    finisher: Finisher

    def cancel(self, stage: str, job_id: str) -> Lease:
        """Mark the job; answers its row as it is then.

        A running job's runner sees the mark at its next progress report, its heartbeat at the next beat: the task is stopped and the message deleted. A job
        between attempts ends here and now. A queued job that nobody has claimed ends when its message is received. One that has ended stays as it is.
        """
        now = self.clock.now()
        row = self.leases.request_cancel(job_key(stage, job_id), stage, now)
        if row.state is not State.RELEASED or row.is_mark:
            return row
        cancelled = cancel_waiting(row, now)
        try:
            self.leases.end_waiting(row, cancelled)
        except LeaseChangedError as error:
            return error.current or row  # claimed a moment ago: its runner sees the mark
        return self.finisher.finish(cancelled)
