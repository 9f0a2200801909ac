"""The timeline of jobs as HTML with one inline SVG: a lane per job, or for several together.

For the report and for the page; it needs `timeline.css` and nothing else.

Positions are percentages of its width. Everything that came from outside is escaped.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path

from longhaul.cli.display.text import counted, moment_text, printable
from longhaul.core.durations import format_duration
from longhaul.operations.timeline import Lane, Segment, SegmentKind, outcome, span

CSS = (Path(__file__).parent / "timeline.css").read_text()

_ROW, _DENSE_ROW, _DENSE_FROM = 24, 16, 30  # px, px, lanes; the heights are also in `timeline.css`
_AXIS = 26
_TAIL = 8  # characters of a name that a narrow column shows in any case
_MARKS = 8  # at most
_CLIPPED = 3.0  # percent: the text of a mark nearer to the left edge is cut off
_STEPS_S = (
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10_800,
    21_600,
    43_200,
    86_400,
)
_CLOCKS = (
    (3600, "%H:%M:%S"),
    (2 * 86_400, "%H:%M"),
)  # for spans below this number of seconds: the format of the marks
_WRONG = {" tl-failed": "✗", " tl-interrupted": "!", " tl-cancelled": "⊘"}
_TOUCH = 0.1  # percent: less than a pixel
_ROOM = 1.5  # percent: a narrower segment has no room for a glyph
_GLYPHS = {"SUCCEEDED": "✓", "DEAD": "✗", "CANCELLED": "⊘"}


def timeline_html(
    lanes: Sequence[Lane], now: datetime, href: Callable[[Lane], str] | None = None
) -> str:
    """A figure with all lanes in the given order.

    Args:
        lanes: Those to draw.
        now: The end of what still lasts, in the picture.
        href: The address that a job's name links to; without it there are no links.
    """
    if not lanes:
        return '<p class="tl-empty">No jobs to show.</p>'
    begin, end = span(lanes, now)
    scale = _Scale(begin, max(end, begin + timedelta(seconds=1)))
    row, dense = (_ROW, "") if len(lanes) < _DENSE_FROM else (_DENSE_ROW, " tl-dense")
    height = row * len(lanes)
    labels = "".join(_label(each, now, href) for each in lanes)
    drawn = "".join(_lane_svg(each, n * row, row, scale, now) for n, each in enumerate(lanes))
    lines = "".join(f'<line x1="{x}%" x2="{x}%" y1="0" y2="{height}"/>' for x, _ in scale.marks())
    jobs = counted(sum(each.jobs for each in lanes), "job")
    title = f"{jobs}, {moment_text(begin)} to {moment_text(end)}"
    return (
        # No style attribute: the page's content security policy forbids them.
        f'<figure class="timeline{dense}" aria-label="Timeline of {title}">'
        f'<div class="tl-scroll" tabindex="0" role="group"'
        f' aria-label="Timeline of {title}; scrolls">'
        f'<div class="tl-corner">{begin:%Y-%m-%d} UTC</div>{_axis(scale)}'
        f'<ol class="tl-labels">{labels}</ol>'
        f'<div class="tl-plot"><svg role="img" aria-label="{title}" width="100%" height="{height}">'
        f"<title>Timeline of {title}</title>"
        "<desc>Lanes of jobs, each described beside its name.</desc>"
        f'<g class="tl-grid">{lines}</g>{drawn}</svg></div></div>{_LEGEND}</figure>'
    )


_LEGEND = (
    '<figcaption class="tl-legend">'
    + "".join(
        '<span><svg width="26" height="12" aria-hidden="true">'
        f'<rect class="tl-{css}" x="1" y="{y}" width="24" height="{h}"/></svg>{text}</span>'
        for css, y, h, text in (
            ("waiting", 5, 2, "waits for its message or a slot"),
            ("backing-off", 5, 2, "backs off"),
            ("starting", 2, 8, "claimed, task starting"),
            ("running", 2, 8, "runs"),
            ("running tl-succeeded", 2, 8, "succeeded ✓"),
            ("running tl-failed", 2, 8, "failed ✗"),
            ("running tl-interrupted", 2, 8, "interrupted by the platform !"),
            ("running tl-cancelled", 2, 8, "cancelled ⊘"),
        )
    )
    + "</figcaption>"
)


class _Scale:
    def __init__(self, begin: datetime, end: datetime) -> None:
        self.begin = begin
        self.seconds = (end - begin).total_seconds()

    def percent(self, moment: datetime) -> float:
        return round(100 * (moment - self.begin).total_seconds() / self.seconds, 4)

    def marks(self) -> Iterator[tuple[float, datetime]]:
        """Position and time of each mark, at round times."""
        gap = self.seconds / _MARKS
        days = 86_400 * max(1, round(gap / 86_400))
        step = next((each for each in _STEPS_S if each >= gap), days)
        first = int(self.begin.timestamp() // step + 1) * step
        for second in range(first, int(self.begin.timestamp() + self.seconds) + 1, step):
            moment = datetime.fromtimestamp(second, UTC)
            yield self.percent(moment), moment


def _axis(scale: _Scale) -> str:
    clock = next((form for seconds, form in _CLOCKS if scale.seconds < seconds), "%m-%d %H:%M")
    marks = ((x, moment) for x, moment in scale.marks() if x >= _CLIPPED)
    texts = "".join(f'<text x="{x}%" y="17">{moment:{clock}}</text>' for x, moment in marks)
    return (
        f'<div class="tl-axis"><svg width="100%" height="{_AXIS}" aria-hidden="true">{texts}</svg>'
        "</div>"
    )


def _label(lane: Lane, now: datetime, href: Callable[[Lane], str] | None) -> str:
    name = text(lane.name)
    # In parts, of which a narrow column cuts the first: many ids differ at their ends alone.
    head, tail = text(lane.name[:-_TAIL]), text(lane.name[-_TAIL:])
    parts = f'<span class="tl-head">{head}</span><span>{tail}</span>'
    shown = f'<a href="{escape(href(lane))}" aria-label="{name}">{parts}</a>' if href else parts
    # The lane in words, for screen readers.
    return (
        f'<li title="{name if lane.jobs > 1 else text(lane.row.job_id)}">'
        f'<span class="tl-name" dir="auto">{shown}</span>'
        f'<span class="tl-words">: {text(in_words(lane, now))}</span></li>'
    )


def in_words(lane: Lane, now: datetime) -> str:
    """The content of a lane as a sentence."""
    jobs = f"{lane.jobs} jobs, " if lane.jobs > 1 else ""
    return (
        f"{lane.row.stage}, {lane.row.state.value.lower()}, {jobs}"
        f"{counted(len(lane.attempts), 'attempt')}, waited {format_duration(lane.waited_s(now))}, "
        f"ran {format_duration(lane.ran_s(now))}"
    )


def _lane_svg(lane: Lane, top: int, row: int, scale: _Scale, now: datetime) -> str:
    rects = "".join(_rect(*each, top, row, now) for each in _bars(lane, scale, now))
    ended = ""
    if lane.ended_at is not None:
        css, glyph = lane.row.state.value.lower(), _GLYPHS[lane.row.state]
        x, y = scale.percent(lane.ended_at), top + row * 0.5
        ended = f'<text class="tl-end tl-{css}" x="{x}%" y="{y}" dx="4" dy="4">{glyph}</text>'
    return (
        f'<g class="tl-lane"><rect class="tl-row" x="0" y="{top}" width="100%" height="{row}"/>'
        f"{rects}{ended}</g>"
    )


@dataclass
class _Bar:
    """Segments that look the same and touch: of thousands in one lane few are drawn."""

    begin: float
    end: float
    segments: list[Segment]


def _bars(lane: Lane, scale: _Scale, now: datetime) -> Iterator[tuple[str, _Bar]]:
    """By their class: above what goes on what succeeded, and above that what went wrong."""
    found: dict[str, list[_Bar]] = {}
    for segment in sorted(lane.segments, key=lambda each: each.begin):
        begin = scale.percent(segment.begin)
        end = max(begin, scale.percent(segment.end or now))
        bars = found.setdefault(f"tl-{segment.kind.replace(' ', '-')}{_outcome(segment)}", [])
        if bars and lane.jobs > 1 and begin <= bars[-1].end + _TOUCH:
            bars[-1].end = max(bars[-1].end, end)
            bars[-1].segments.append(segment)
        else:
            bars.append(_Bar(begin, end, [segment]))
    for css in sorted(found, key=lambda css: (css.endswith(tuple(_WRONG)), " " in css)):
        yield from ((css, each) for each in found[css])


def _rect(css: str, bar: _Bar, top: int, row: int, now: datetime) -> str:
    first, *others = bar.segments
    y, height = (top + row // 2 - 1, 2) if first.record is None else (top + 3, row - 6)
    wrong, glyph = _WRONG.get(_outcome(first)), ""
    if first.kind is SegmentKind.RUNNING and wrong and bar.end - bar.begin >= _ROOM:
        glyph = (
            f'<text class="tl-wrong" x="{bar.end}%" y="{top + row / 2}" dx="-4" dy="4">'
            f"{wrong}</text>"
        )
    place = f'x="{bar.begin}%" y="{y}" width="{round(bar.end - bar.begin, 4)}%" height="{height}"'
    said = text(_tooltip(first, now)) + (f"\nand {len(others)} more" if others else "")
    return f'<rect class="{css}" {place}><title>{said}</title></rect>{glyph}'


def _outcome(segment: Segment) -> str:
    """The class of its colour, behind a space; empty while it lasts."""
    ended = outcome(segment.record) if segment.record else None
    return f" tl-{ended}" if ended else ""


def _tooltip(segment: Segment, now: datetime) -> str:
    """The tooltip of a segment."""
    lasted = f"{moment_text(segment.begin)}, {format_duration(segment.seconds(now))}"
    record = segment.record
    if record is None:
        return f"{segment.kind.value}: {lasted}"
    parts = [
        f"attempt {record.attempt.number} {segment.kind.value}: {lasted}",
        f"{record.size}, {record.attempt.beats} beats",
    ]
    if record.attempt.hand_overs or record.attempt.adoptions:
        parts.append(
            f"{record.attempt.hand_overs} hand-overs, {record.attempt.adoptions} adoptions"
        )
    if record.ended_at is not None:
        parts.append(f"{record.kind or 'ended'}{f': {record.reason}' if record.reason else ''}")
    return "\n".join(parts)


def text(value: object) -> str:
    """As text of a page: no markup, and no invisible characters."""
    return escape(printable(value, lines=True))
