"""The timeline of jobs as HTML with one inline SVG: a lane per job. For the report and for the console page; needs `timeline.css` and nothing else.

Positions are shares of the width, so that a wider `.tl-plot` is all that a zoom takes. Everything that came from outside is escaped.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path

from console.beats import beats_in_words, beats_svg
from console.output import printable
from console.show import moment_text
from longhaul.domain.durations import format_duration
from longhaul.domain.history import Attempt
from longhaul.domain.lease import Lease, State
from longhaul.domain.timeline import Lane, Segment, SegmentKind, span, went_wrong

CSS = (Path(__file__).parent / "timeline.css").read_text()

ZOOMS = (1, 4, 16)
"""How many times as wide the plot may be; the axis has marks for each."""

_ROW, _DENSE_ROW, _DENSE_FROM = 24, 16, 60  # px, px, lanes; the first two as in `timeline.css`
_AXIS = 26
_MARKS = 8  # at the most, at each zoom
_CLIPPED = 3.0  # percent: a mark's text nearer to the left edge would be cut off
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
_CLOCKS = ((3600, "%H:%M:%S"), (2 * 86_400, "%H:%M"))  # seconds from first to last, and how its marks are written
# What colours say, said again for who cannot tell them apart.
_WRONG = {" tl-failed": "✗", " tl-interrupted": "!", " tl-cancelled": "⊘"}
_ROOM = 1.5  # percent: a narrower segment has none for a glyph
_GLYPHS = {State.SUCCEEDED: "✓", State.DEAD: "✗", State.CANCELLED: "⊘"}
_CLASSES = {
    SegmentKind.WAITING: "waiting",
    SegmentKind.BACKING_OFF: "backing-off",
    SegmentKind.STARTING: "starting",
    SegmentKind.RUNNING: "running",
}


def timeline_html(lanes: Sequence[Lane], now: datetime, href: Callable[[Lane], str] | None = None) -> str:
    """A figure with all lanes, in the given order.

    Args:
        lanes: One for each job.
        now: Where what goes on ends, in the picture.
        href: The address to which a job's name leads; none without.
    """
    if not lanes:
        return '<p class="tl-empty">No jobs to show.</p>'
    begin, end = span(lanes, now)
    scale = _Scale(begin, max(end, begin + timedelta(seconds=1)))
    row, dense = (_ROW, "") if len(lanes) < _DENSE_FROM else (_DENSE_ROW, " tl-dense")
    height = row * len(lanes)
    labels = "".join(_label(each, now, href) for each in lanes)
    drawn = "".join(_drawn(each, n * row, row, scale, now) for n, each in enumerate(lanes))
    lines = "".join(f'<line class="{css}" x1="{x}%" x2="{x}%" y1="0" y2="{height}"/>' for x, _, css in scale.marks())
    said = f"{len(lanes)} {'job' if len(lanes) == 1 else 'jobs'}, {moment_text(begin)} to {moment_text(end)}"
    return (
        # No style attribute: a strict content security policy would not have it.
        f'<figure class="timeline{dense}" aria-label="Timeline of {said}">'
        f'<div class="tl-scroll" tabindex="0" role="group" aria-label="Timeline of {said}; scrolls">'
        f'<div class="tl-corner">{begin:%Y-%m-%d} UTC</div>{_axis(scale)}'
        f'<ol class="tl-labels">{labels}</ol>'
        f'<div class="tl-plot"><svg role="img" aria-label="{said}" width="100%" height="{height}">'
        f"<title>Timeline of {said}</title><desc>One lane for each job, described beside its name.</desc>"
        f'<g class="tl-grid">{lines}</g>{drawn}</svg></div></div>{_LEGEND}</figure>'
    )


_LEGEND = (
    '<figcaption class="tl-legend">'
    + "".join(
        f'<span><svg width="26" height="12" aria-hidden="true"><rect class="tl-{css}" x="1" y="{y}" width="24" height="{h}"/></svg>{text}</span>'
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
    + '<span><svg class="tl-beats" width="26" height="12" aria-hidden="true"><path d="M3 4v4m5-4v4m5-4v4m5-4v4m5-4v4"/></svg>'
    "beats, as many as there is room for</span>"
    '<span><svg class="tl-beats" width="26" height="12" aria-hidden="true"><path class="tl-counted" d="M1 6h24"/></svg>'
    "beats that are only counted</span></figcaption>"
)


class _Scale:
    def __init__(self, begin: datetime, end: datetime) -> None:
        self.begin = begin
        self.seconds = (end - begin).total_seconds()

    def percent(self, moment: datetime) -> float:
        return round(100 * (moment - self.begin).total_seconds() / self.seconds, 4)

    def marks(self) -> Iterator[tuple[float, datetime, str]]:
        """Where, when, and from which zoom on: at round times, each once."""
        seen: set[int] = set()
        step = 0
        for zoom in ZOOMS:
            wanted = self.seconds / zoom / _MARKS
            days = 86_400 * max(1, round(wanted / 86_400))
            # Each divides the coarser one: else the marks of two zooms would not be evenly spaced.
            step = next((s for s in _STEPS_S if s >= wanted and step % s == 0), step or days)
            first = int(self.begin.timestamp() // step + 1) * step
            for second in range(first, int(self.begin.timestamp() + self.seconds) + 1, step):
                if second not in seen:
                    seen.add(second)
                    moment = datetime.fromtimestamp(second, UTC)
                    yield self.percent(moment), moment, f"tl-z{zoom}"


def _axis(scale: _Scale) -> str:
    clock = next((form for seconds, form in _CLOCKS if scale.seconds < seconds), "%m-%d %H:%M")
    marks = ((x, moment, css) for x, moment, css in scale.marks() if x >= _CLIPPED)
    texts = "".join(f'<text class="{css}" x="{x}%" y="17">{moment:{clock}}</text>' for x, moment, css in marks)
    return f'<div class="tl-axis"><svg width="100%" height="{_AXIS}" aria-hidden="true">{texts}</svg></div>'


def _label(lane: Lane, now: datetime, href: Callable[[Lane], str] | None) -> str:
    name = text(name_of(lane.row))
    shown = f'<a href="{escape(href(lane))}">{name}</a>' if href else name
    # The picture in words, for who cannot see it.
    return f'<li title="{text(lane.row.job_id)}"><span>{shown}</span><span class="tl-words">: {text(in_words(lane, now))}</span></li>'


def name_of(row: Lease) -> str:
    """How people call a job: by its id; one that another job's success made, by where it comes from and its place among its siblings."""
    if row.lineage is None:
        return row.job_id
    place = ".".join(f"{group.n + 1:02}" for group in row.lineage.groups)
    return f"{row.root.partition('#')[2]} {row.stage} {place}".rstrip()


def in_words(lane: Lane, now: datetime) -> str:
    """What a lane shows, as a sentence."""
    waited = lane.seconds(now, SegmentKind.WAITING, SegmentKind.BACKING_OFF)
    ran = lane.seconds(now, SegmentKind.STARTING, SegmentKind.RUNNING)
    count = len(lane.attempts)
    return (
        f"{lane.row.stage}, {lane.row.state.value.lower()}, {count} {'attempt' if count == 1 else 'attempts'}, "
        f"waited {format_duration(waited)}, ran {format_duration(ran)}, {beats_in_words(lane.attempts)}"
    )


def _drawn(lane: Lane, top: int, row: int, scale: _Scale, now: datetime) -> str:
    rects = "".join(_rect(each, top, row, scale, now) for each in lane.segments)
    beats = "".join(_beats(each, top + row, scale, now) for each in lane.attempts)
    ended = ""
    if lane.ended_at is not None:
        css, glyph = lane.row.state.value.lower(), _GLYPHS[lane.row.state]
        x, y = scale.percent(lane.ended_at), top + row * 0.5
        ended = f'<text class="tl-end tl-{css}" x="{x}%" y="{y}" dx="4" dy="4">{glyph}</text>'
    return f'<g class="tl-lane"><rect class="tl-row" x="0" y="{top}" width="100%" height="{row}"/>{rects}{beats}{ended}</g>'


def _rect(segment: Segment, top: int, row: int, scale: _Scale, now: datetime) -> str:
    begin, end = scale.percent(segment.begin), scale.percent(max(segment.end or now, segment.begin))
    thin = segment.attempt is None
    y, height = (top + row // 2 - 1, 2) if thin else (top + 3, row - 6)
    outcome = _outcome(segment)
    css = f"tl-{_CLASSES[segment.kind]}{outcome}"
    glyph = ""
    if segment.kind is SegmentKind.RUNNING and outcome in _WRONG and end - begin >= _ROOM:
        glyph = f'<text class="tl-wrong" x="{end}%" y="{top + row / 2}" dx="-4" dy="4">{_WRONG[outcome]}</text>'
    place = f'x="{begin}%" y="{y}" width="{round(end - begin, 4)}%" height="{height}"'
    return f'<rect class="{css}" {place}><title>{text(_said(segment, now))}</title></rect>{glyph}'


def _beats(attempt: Attempt, bottom: int, scale: _Scale, now: datetime) -> str:
    end = max(attempt.ended_at or now, attempt.claimed_at)
    x = scale.percent(attempt.claimed_at)
    width = round(scale.percent(end) - x, 4)
    return beats_svg(attempt, (end - attempt.claimed_at).total_seconds(), x, width, bottom, ZOOMS)


def _outcome(segment: Segment) -> str:
    attempt = segment.attempt
    if attempt is None or attempt.ended_at is None:
        return ""
    if not went_wrong(attempt):
        return " tl-succeeded"
    return f" tl-{attempt.kind}" if attempt.kind in ("interrupted", "cancelled") else " tl-failed"


def _said(segment: Segment, now: datetime) -> str:
    """A segment as the pointer finds it."""
    lasted = f"{moment_text(segment.begin)}, {format_duration(segment.seconds(now))}"
    attempt = segment.attempt
    if attempt is None:
        return f"{segment.kind.value}: {lasted}"
    parts = [
        f"attempt {attempt.attempt} {segment.kind.value}: {lasted}",
        f"{attempt.size}, {beats_in_words([attempt])}",
    ]
    if attempt.hand_overs or attempt.adoptions:
        parts.append(f"{attempt.hand_overs} hand-overs, {attempt.adoptions} adoptions")
    if attempt.ended_at is not None:
        parts.append(f"{attempt.kind or 'ended'}{f': {attempt.reason}' if attempt.reason else ''}")
    return "\n".join(parts)


def text(value: object) -> str:
    """As text of a page: nothing in it is markup, and nothing hides."""
    return escape(printable(value, lines=True))
