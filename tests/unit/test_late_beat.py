"""A beat whose attempt settles, or loses its row, while the message is extended."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from longhaul.core.errors import LeaseChangedError
from longhaul.core.heartbeat import Heartbeat
from longhaul.core.lease import Lease, State
from tests.builders import NOW, changed, running
from tests.unit.use_cases import alone

ROW = changed(running(), task_arn="arn:task", progress_at=NOW)
RELEASED = replace(
    ROW,
    state=State.RELEASED,
    settled_attempt=1,
    settled_at=NOW,
    retry_at=NOW + timedelta(seconds=7),
)


@pytest.mark.parametrize(
    ("row", "current", "hidden_s"),
    [
        (ROW, RELEASED, [7]),
        (ROW, None, []),
        (ROW, changed(RELEASED, receipt_handle="newer"), []),
        (ROW, replace(ROW, run=ROW.run + 1), []),
        (changed(ROW, receipt_handle=None), changed(RELEASED, receipt_handle=None), []),
    ],
    ids=["released", "gone", "received again", "a new run", "handed over"],
)
def test_only_the_back_off_that_a_beat_has_overwritten_is_restored(
    row: Lease, current: Lease | None, hidden_s: list[int]
) -> None:
    leases, queue = Mock(), Mock()
    leases.load.return_value = row
    leases.report.side_effect = LeaseChangedError(current)
    queue.set_visibility.return_value = "extended"
    beat = alone(Heartbeat, leases=leases, queue=queue)

    assert beat.beat(ROW.id) == {"next": "end", "wait_s": 0, "cause": ""}

    extends = 1 if row.receive.receipt_handle else 0
    calls: list[Any] = [call.args[2] for call in queue.set_visibility.call_args_list]
    assert calls[extends:] == hidden_s
