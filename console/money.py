"""Amounts as people read them."""

from math import floor, log10

from longhaul.domain.cost import Fate, JobCost


def money(amount: float) -> str:
    """With three digits that say something, or to the cent: most jobs cost less than one."""
    if amount <= 0:
        return "0"
    return f"{amount:.{max(2, 2 - floor(log10(amount)))}f}"


def wasted(job: JobCost) -> float:
    """What was for nothing, whosever fault it was."""
    fates = job.by_fate()
    return fates[Fate.FAILED] + fates[Fate.INTERRUPTED] + fates[Fate.CANCELLED]
