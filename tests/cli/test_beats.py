"""Beats in the timeline: their ticks, and their description in words."""

import re
from datetime import datetime, timedelta
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from longhaul.cli.display.beats import beats_in_words, beats_svg
from longhaul.cli.display.timeline_html import ZOOMS
from longhaul.domain.beat import BEATS_KEPT
from longhaul.domain.history import AttemptRecord
from tests.builders import NOW, changed, record

ATTEMPT = record()


def beaten(*ages: int, counted: int = 0) -> AttemptRecord:
    """An attempt with `counted` beats before those whose times are kept."""
    return changed(ATTEMPT, beats=counted + len(ages), beat_ages_s=ages)


def every(seconds: int, count: int, counted: int = 0) -> AttemptRecord:
    return beaten(*(seconds * (counted + n + 1) for n in range(count)), counted=counted)


def drawn(record: AttemptRecord, seconds: float, width: float) -> dict[int, list[float]]:
    """The visible ticks at each zoom, in seconds since the claim."""
    svg = ET.fromstring(beats_svg(record, seconds, 10, width, 24, ZOOMS))  # noqa: S314 - our own
    by_zoom = {}
    for path in svg.iter("path"):
        at, ages = 0.0, []
        for step in re.findall(r"m(\d+)-1v1", str(path.get("d"))):
            at += int(step)
            ages.append(at)
        by_zoom[str(path.get("class"))] = ages
    seen = [
        (zoom, [age for other in ZOOMS if other <= zoom for age in by_zoom.get(f"tl-z{other}", [])])
        for zoom in ZOOMS
    ]
    return {zoom: sorted(ages) for zoom, ages in seen}


def test_a_tick_is_at_the_time_of_its_beat() -> None:
    svg = beats_svg(beaten(15, 30, 47), 75, 25.0, 75.0, 24, ZOOMS)
    assert svg == (
        '<svg class="tl-beats" x="25.0%" y="21" width="75.0%" height="3" viewBox="0 0 75 1"'
        ' preserveAspectRatio="none">'
        '<path class="tl-z1" d="M0 1m15-1v1m15-1v1m17-1v1"/></svg>'
    )


@pytest.mark.parametrize("width", [100, 12, 3, 0.4, 0.01])
def test_ticks_never_touch_and_a_zoom_shows_more_of_them(width: float) -> None:
    record = every(300, BEATS_KEPT, counted=7)
    seconds = 300.0 * (BEATS_KEPT + 7)
    seen = drawn(record, seconds, width)
    for zoom, ages in seen.items():
        steps = {after - before for before, after in pairwise(ages)}
        assert len(steps) <= 1, "what beats regularly has regular ticks"
        # For a plot that is 1200 pixels wide at zoom 1.
        assert all(step * width / 100 * zoom * 1200 / seconds >= 5.9 for step in steps)
    assert set(seen[1]) <= set(seen[4]) <= set(seen[16]) <= set(record.attempt.beat_ages_s)
    assert (len(seen[1]), len(seen[16])) == {
        100: (60, 60),
        12: (15, 60),
        3: (4, 60),
        0.4: (0, 8),
        0.01: (0, 0),
    }[width]


def test_ticks_keep_their_places_when_a_beat_is_added_and_the_first_forgotten() -> None:
    before = drawn(every(300, BEATS_KEPT, counted=7), 40_000, 20)
    after = drawn(every(300, BEATS_KEPT, counted=8), 40_000, 20)
    for zoom, ages in before.items():
        assert [age for age in ages if age > 8 * 300] == [
            age for age in after[zoom] if age <= 67 * 300
        ]


def test_beats_without_times_are_a_line() -> None:
    assert '<path class="tl-counted" d="M0 .5H2400"/>' in beats_svg(
        every(300, 60, counted=7), 40_000, 0, 100, 24, ZOOMS
    )
    assert '<path class="tl-counted" d="M0 .5H90"/>' in beats_svg(
        changed(ATTEMPT, beats=3), 90, 0, 100, 24, ZOOMS
    )
    assert "tl-counted" not in beats_svg(every(300, 60), 40_000, 0, 100, 24, ZOOMS)


def test_an_attempt_without_beats_or_duration_has_no_ticks() -> None:
    assert beats_svg(ATTEMPT, 90, 0, 100, 24, ZOOMS) == ""
    assert beats_svg(beaten(0), 0, 50, 0, 24, ZOOMS) == ""


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_beats_are_described_in_words() -> None:
    assert beats_in_words([]) == beats_in_words([ATTEMPT]) == "0 beats"
    assert beats_in_words([changed(ATTEMPT, beats=3)]) == "3 beats"
    assert beats_in_words([beaten(15)]) == "1 beat at 2026-01-02 03:04:20Z"
    second = changed(beaten(15, 30), claimed_at=at(600))
    assert (
        beats_in_words([beaten(15), second])
        == "3 beats from 2026-01-02 03:04:20Z to 2026-01-02 03:14:35Z"
    )
    assert (
        beats_in_words([beaten(45, 60, counted=2)])
        == "4 beats, 2 of them from 2026-01-02 03:04:50Z to 2026-01-02 03:05:05Z"
    )
