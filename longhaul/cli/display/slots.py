"""The slots and the dead letters of a stage in words, for the terminal and the page."""

from longhaul.cli.display.text import counted, moment_text
from longhaul.core.settings import Stage
from longhaul.operations.stage_counts import SlotUse, StageCounts


def slots_of(use: SlotUse, stage: Stage) -> str:
    """Such as `2 of 3 slots in use (set by hand; deployed: 10), paused since …`."""
    return f"{use.running} of {counted(use.slots, 'slot')} in use{set_by_operator(use, stage)}"


def set_by_operator(use: SlotUse, stage: Stage) -> str:
    """What differs from the deployment; empty if nothing does."""
    by_hand = f" (set by hand; deployed: {stage.slots})" if use.is_by_hand else ""
    return by_hand + (f", {paused_since(use)}" if use.paused_at else "")


def paused_since(use: SlotUse) -> str:
    """Empty for a stage that is not paused."""
    return f"paused since {moment_text(use.paused_at)}" if use.paused_at else ""


def letters_of(counts: StageCounts) -> str:
    """Such as `dead letters: 2, and 1 other of jobs that are not dead`."""
    others = counts.dead_letters - counts.of_the_dead
    more = f", and {counted(others, 'other')} of jobs that are not dead" if others else ""
    return f"dead letters: {counts.of_the_dead}{more}"
