"""A claimed message stays invisible until its first beat, however late the settings let that be."""

from pathlib import Path

import pytest

from longhaul.core import beat
from tests.handlers.life import Life
from tests.handlers.stack import deployed


@pytest.mark.parametrize("floor_s", [15, 60, 120, 300])
def test_the_message_stays_invisible_until_the_first_beat_has_come(
    output: Path, floor_s: int
) -> None:
    with deployed(lease={"beat_floor_s": floor_s}) as stack:
        life = Life(stack, output)
        row = life.running("january")
        # A beat that is as late as the margin allows.
        stack.aws.clock.advance(beat.interval_s(0, stack.settings.lease) + 30)
        assert stack.messages() == (0, 1)
        life.beat(row)
        stack.aws.clock.advance(floor_s + 30)
        assert stack.messages() == (0, 1)
