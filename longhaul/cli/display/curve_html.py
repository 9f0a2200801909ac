"""A curve over the runs of a job as a small inline SVG, without a style attribute."""

from collections.abc import Callable, Sequence

from longhaul.cli.display.job import name_of
from longhaul.cli.display.text import moment_text
from longhaul.cli.display.timeline_html import text
from longhaul.cli.insight.curves import Curve, Point
from longhaul.domain.lease import Lease

_WIDTH, _HEIGHT, _MARGIN = 320, 72, 6


def curve_html(curve: Curve, here: Lease, link: Callable[[Lease], str]) -> str:
    """The curve, with a point for each run, which leads to its job; `here` is marked.

    Its lowest line is zero, or the least value where that is below zero.
    """
    values = curve.values
    low, high = min(0.0, *values), max(values)
    places = [
        (_across(n, len(values)), _up(each.value, low, high)) for n, each in enumerate(curve.points)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    points = "".join(
        f'<a href="{text(link(each.row))}">'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"{_mark(each, here)}>'
        f"<title>{text(_said(each))}</title></circle></a>"
        for each, (x, y) in zip(curve.points, places, strict=True)
    )
    return (
        f'<svg class="curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="group"'
        f' aria-label="{text(curve.name)}: {text(_summary(values))}">'
        f'<line class="curve-base" x1="0" x2="{_WIDTH}" y1="{_up(low, low, high):.1f}"'
        f' y2="{_up(low, low, high):.1f}"/><polyline points="{line}"/>{points}</svg>'
    )


def number_text(value: float) -> str:
    """As in `1,200` and `0.25`."""
    return f"{value:,.10g}"


def _summary(values: Sequence[float]) -> str:
    return (
        f"{len(values)} runs, from {number_text(min(values))} to {number_text(max(values))}, "
        f"last {number_text(values[-1])}"
    )


def _said(point: Point) -> str:
    return f"{number_text(point.value)}: {name_of(point.row)}, {moment_text(point.row.settled_at)}"


def _mark(point: Point, here: Lease) -> str:
    return ' class="curve-here"' if point.row.key == here.key else ""


def _across(n: int, count: int) -> float:
    return _MARGIN + (_WIDTH - 2 * _MARGIN) * n / (count - 1)


def _up(value: float, low: float, high: float) -> float:
    # By halves: the difference of two numbers may be too large for one.
    share = (value / 2 - low / 2) / (high / 2 - low / 2) if high > low else 0.0
    return _HEIGHT - _MARGIN - (_HEIGHT - 2 * _MARGIN) * share
