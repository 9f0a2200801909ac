"""The beats of attempts: as ticks that hang from their bars in the timeline, and in words."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from console.show import moment_text
from longhaul.domain.history import Attempt

_HEIGHT = 3  # px; as much as a lane leaves free below its bars
_ROOM = 0.5
"""Percent of the plot's width that a tick has for itself where nothing is zoomed: six pixels of 1200."""


def beats_svg(attempt: Attempt, seconds: float, x: float, width: float, bottom: int, zooms: Sequence[int]) -> str:
    """A picture in the picture, whose unit is a second, so that a tick's place is its age; a line where beats are only counted.

    Args:
        attempt: Whose beats.
        seconds: How long it lasted, or has until now.
        x: Where it begins, in percent of the plot's width.
        width: How much of that it takes.
        bottom: Of its lane, in pixels.
        zooms: How many times as wide the plot may be, ascending.
    """
    if not attempt.beats or width <= 0:
        return ""
    paths = [
        f'<path class="tl-z{zoom}" d="M0 1{"".join(f"m{age - last}-1v1" for last, age in pairwise((0, *ages)))}"/>'
        for zoom, ages in _ticks(attempt, width / seconds, zooms)
        if ages
    ]
    if attempt.beats > len(attempt.beat_ages_s):
        until = attempt.beat_ages_s[0] if attempt.beat_ages_s else seconds
        paths.append(f'<path class="tl-counted" d="M0 .5H{until}"/>')
    place = f'x="{x}%" y="{bottom - _HEIGHT}" width="{width}%" height="{_HEIGHT}"'
    return f'<svg class="tl-beats" {place} viewBox="0 0 {seconds} 1" preserveAspectRatio="none">{"".join(paths)}</svg>'


def _ticks(attempt: Attempt, percent_per_s: float, zooms: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """For each zoom the ticks, as ages, that it adds to those of the zooms before it.

    Where they would run into one another only every second is drawn, or every fourth, …. Which follows from the number of the beat: ticks stay while others
    come, and what beats regularly has regular ticks at every zoom.
    """
    ages = attempt.beat_ages_s
    first = attempt.beats - len(ages) + 1
    # Before the first was the claim; or a beat that is only counted, about as long ago as the next is to come.
    before = max(0, 2 * ages[0] - ages[1]) if first > 1 and len(ages) > 1 else 0
    rooms = [
        (age - last) * (n & -n) * percent_per_s  # n & -n: the largest power of two that divides n
        for n, (last, age) in enumerate(pairwise((before, *ages)), start=first)
    ]
    drawn_from = float("inf")
    for zoom in zooms:
        wanted = _ROOM / zoom
        yield zoom, [age for age, room in zip(ages, rooms, strict=True) if wanted <= room < drawn_from]
        drawn_from = wanted


def beats_in_words(attempts: Sequence[Attempt]) -> str:
    """How many, and from when to when, as far as that is known."""
    count = sum(each.beats for each in attempts)
    times = [time for each in attempts for time in each.beat_times]
    said = f"{count} beat{'' if count == 1 else 's'}"
    if not times:
        return said
    if len(times) < count:
        said += f", {len(times)} of them"
    if len(times) == 1:
        return f"{said} at {moment_text(times[0])}"
    return f"{said} from {moment_text(times[0])} to {moment_text(times[-1])}"
