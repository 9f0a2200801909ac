"""The beats of attempts: as ticks below their bars in the timeline, and in words."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from longhaul.cli.display.text import moment_text
from longhaul.domain.history import AttemptRecord

_HEIGHT = 3  # px; the free space of a lane below its bars
TICK_WIDTH_PERCENT = 0.5
"""Of the plot's width at zoom 1: six pixels of 1200."""


def beats_svg(
    record: AttemptRecord,
    seconds: float,
    x: float,
    width: float,
    bottom: int,
    zooms: Sequence[int],
) -> str:
    """An inner SVG whose unit is a second, so that a tick's place is its age.

    Beats that are only counted, without a time, are a line.

    Args:
        record: The attempt whose beats are drawn.
        seconds: Its duration, until now if it runs.
        x: Where it begins, in percent of the plot's width.
        width: Its own width, in percent of the plot's.
        bottom: The lower edge of its lane, in pixels.
        zooms: The factors by which the plot can be widened, ascending.
    """
    if not record.attempt.beats or width <= 0:
        return ""
    paths = [
        f'<path class="tl-z{zoom}" d="{_path(ages)}"/>'
        for zoom, ages in _ticks(record, width / seconds, zooms)
        if ages
    ]
    if record.attempt.beats > len(record.attempt.beat_ages_s):
        until = record.attempt.beat_ages_s[0] if record.attempt.beat_ages_s else seconds
        paths.append(f'<path class="tl-counted" d="M0 .5H{until}"/>')
    place = f'x="{x}%" y="{bottom - _HEIGHT}" width="{width}%" height="{_HEIGHT}"'
    return (
        f'<svg class="tl-beats" {place} viewBox="0 0 {seconds} 1" preserveAspectRatio="none">'
        f"{''.join(paths)}</svg>"
    )


def _path(ages: Sequence[int]) -> str:
    return "M0 1" + "".join(f"m{age - last}-1v1" for last, age in pairwise((0, *ages)))


def _ticks(
    record: AttemptRecord, percent_per_s: float, zooms: Sequence[int]
) -> Iterator[tuple[int, list[int]]]:
    """For each zoom the ticks, as ages, that it adds to those of the lower zooms.

    Where ticks would touch, only every second beat is drawn, or every fourth, and so on. The beat's
    number decides: a tick stays when more are added, and regular beats have regular ticks at every
    zoom.
    """
    ages = record.attempt.beat_ages_s
    first = record.attempt.beats - len(ages) + 1
    # Before the first tick there is the claim, or a beat that is only counted: assume the next
    # beat's distance for it.
    before = max(0, 2 * ages[0] - ages[1]) if first > 1 and len(ages) > 1 else 0
    rooms = [
        (age - last) * largest_power_of_two(n) * percent_per_s
        for n, (last, age) in enumerate(pairwise((before, *ages)), start=first)
    ]
    drawn_from = float("inf")
    for zoom in zooms:
        width = TICK_WIDTH_PERCENT / zoom
        yield (
            zoom,
            [age for age, room in zip(ages, rooms, strict=True) if width <= room < drawn_from],
        )
        drawn_from = width


def largest_power_of_two(n: int) -> int:
    """The largest power of two that divides `n`: its lowest bit that is set."""
    return n & -n


def beats_in_words(attempts: Sequence[AttemptRecord]) -> str:
    """Their number, and the times of the first and the last as far as they are known."""
    count = sum(each.attempt.beats for each in attempts)
    times = [time for each in attempts for time in each.beat_times]
    text = f"{count} beat{'' if count == 1 else 's'}"
    if not times:
        return text
    if len(times) < count:
        text += f", {len(times)} of them"
    if len(times) == 1:
        return f"{text} at {moment_text(times[0])}"
    return f"{text} from {moment_text(times[0])} to {moment_text(times[-1])}"
