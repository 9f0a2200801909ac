"""Cancel a job: queued, waiting for its next attempt, or running."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from longhaul.core import transitions
from longhaul.core.errors import LeaseChangedError
from longhaul.core.lease import Lease, State, job_key
from longhaul.core.ports import Leases
from longhaul.core.settlement import end_cancelled

if TYPE_CHECKING:
    from longhaul.core.finish import Finisher


@dataclass(frozen=True)
class Canceller:
    leases: Leases
    finisher: "Finisher"

    def cancel(self, stage: str, job_id: str) -> Lease:
        """Cancel what was sent under this id until now; returns the row as it is then.

        A running job's runner sees the mark at its next progress report, its heartbeat at the next
        beat: the task is stopped and the message deleted. A job between attempts ends at once. A
        job that is still queued ends when its message is received. An ended job stays as it is,
        and a message that waits to run it again is deleted when it is received. What is sent
        afterwards runs, once the cancelled run has ended.
        """
        row = self.leases.request_cancel(job_key(stage, job_id), stage)
        if row.state is not State.RELEASED or row.is_mark:
            return row
        cancelled = end_cancelled(row, self.leases.aws_time())
        try:
            self.leases.apply(transitions.end_waiting(row, cancelled))
        except LeaseChangedError as error:
            return error.current or row  # claimed meanwhile: its runner sees the mark
        return self.finisher.finish(cancelled)
