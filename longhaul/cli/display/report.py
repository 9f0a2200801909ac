"""The report as one self-contained HTML page: timeline, outcomes, waits, retries, cost."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from longhaul.cli.display.document import document
from longhaul.cli.display.job import asked_for, name_of
from longhaul.cli.display.timeline_html import ZOOMS, text, timeline_html
from longhaul.cli.insight.cost import AttemptCost, JobCost, SpentOn, amounts_spent, by_stage, money
from longhaul.cli.insight.prices import Prices
from longhaul.cli.insight.summary import Repeated, Spread, Summary, repeated, summarize
from longhaul.cli.insight.timeline import SegmentKind, went_wrong
from longhaul.domain.durations import format_duration
from longhaul.domain.lease import Lease, State
from longhaul.domain.request import JobRequest

MAX_LISTED = 500
"""The most jobs, and the most wasted attempts, that are listed: a longer list is not read."""

_SAID = frozenset({"reason", "why", "asked for"})  # columns of long texts, which wrap

_SHORT_S = 60  # shorter durations are shown with tenths


@dataclass(frozen=True)
class Report:
    """Jobs of a `subject`, such as a stack, as they were at `now`.

    All of them are counted, the first `MAX_LISTED` also drawn and listed.

    `requests`: by a job's key, where they could be read. What looks like a secret in them is cut.
    """

    subject: str
    jobs: Sequence[JobCost]
    prices: Prices
    now: datetime
    requests: Mapping[str, JobRequest] = field(default_factory=dict)

    def html(self) -> str:
        """The whole page."""
        return document(
            f"Longhaul: {self.subject}",
            f"<p class=dim>{self._scope()}</p>{self._figures()}"
            f"<h2>Timeline</h2>{self._timeline()}"
            f"<h2>Outcomes</h2>{self._outcomes()}<h2>Waits</h2>{self._waits()}"
            f"<h2>Wasted attempts</h2>{self._wrong_attempts_html()}"
            f"<h2>Cost</h2>{self._cost()}<h2>Jobs</h2>{self._jobs()}",
        )

    def _summaries(self) -> Mapping[str, Summary]:
        stages = by_stage(self.jobs)
        summaries = {
            name: summarize([job.lane for job in jobs], self.now) for name, jobs in stages.items()
        }
        if len(summaries) > 1:
            summaries["all"] = summarize([job.lane for job in self.jobs], self.now)
        return summaries

    def _scope(self) -> str:
        jobs = f"{len(self.jobs):,} {'job' if len(self.jobs) == 1 else 'jobs'}"
        if len(self.jobs) > MAX_LISTED:
            jobs += f" (the timeline and the list of jobs have the first {MAX_LISTED}: open ones, "
            jobs += "then the latest that ended)"
        return f"{jobs}, as of {self.now:%Y-%m-%d %H:%M:%S} UTC. All times are UTC."

    def _figures(self) -> str:
        all_ = summarize([job.lane for job in self.jobs], self.now)
        total = sum(job.cost.total for job in self.jobs)
        lost = sum(job.wasted for job in self.jobs)
        share = f"{lost / total:.0%}" if total else "0%"
        figures = (
            (f"{all_.states[State.SUCCEEDED]} of {all_.jobs}", "jobs succeeded"),
            (str(all_.states[State.DEAD]), "dead"),
            (str(all_.retries), "retries"),
            (_seconds(all_.waits.median), "median wait"),
            (_seconds(all_.runs.median), "median run"),
            (f"{money(total)} {text(self.prices.currency)}", "cost on AWS"),
            (share, "of it wasted"),
            *_saved_figures(self.jobs),
        )
        return (
            "<dl class=figures>"
            + "".join(f"<div><dt>{b}</dt><dd>{a}</dd></div>" for a, b in figures)
            + "</dl>"
        )

    def _timeline(self) -> str:
        lanes = sorted(
            (job.lane for job in self.jobs[:MAX_LISTED]),
            key=lambda lane: (lane.begin, name_of(lane.row)),
        )
        buttons = "".join(
            f'<label><input type=radio name=zoom id="zoom-{zoom}"'
            f"{' checked' if zoom == 1 else ''}> {zoom}x</label>"
            for zoom in ZOOMS
        )
        return (
            f"<fieldset class=zoom><legend>Zoom</legend>{buttons}</fieldset>"
            f"{timeline_html(lanes, self.now)}"
        )

    def _outcomes(self) -> str:
        headings = [
            "stage",
            "jobs",
            *(state.value.lower() for state in State),
            "attempts",
            "retries",
        ]
        rows = [
            [
                name,
                summary.jobs,
                *(summary.states[state] for state in State),
                summary.attempts,
                summary.retries,
            ]
            for name, summary in self._summaries().items()
        ]
        return _table("Outcomes", headings, rows)

    def _waits(self) -> str:
        headings = ["stage", "what", "how often", "median", "95 %", "longest"]
        rows: list[list[object]] = []
        for name, summary in self._summaries().items():
            spreads = {
                "waited for message or slot": summary.waits,
                "backed off": summary.back_offs,
                "task started": summary.starts,
                "ran": summary.runs,
            }
            rows += [
                [name, what, *_cells(spread)] for what, spread in spreads.items() if spread.count
            ]
        return _table("Waits", headings, rows)

    def _wrong_attempts_html(self) -> str:
        wrong = [each for job in self.jobs for each in job.attempts if went_wrong(each.record)]
        if not wrong:
            return "<p>None.</p>"
        classes = summarize([job.lane for job in self.jobs], self.now).wrong
        summed = ", ".join(f"{count} {text(kind)}" for kind, count in classes.most_common())
        rows = [_wrong_row(each) for each in wrong[:MAX_LISTED]]
        more = (
            f"<p class=dim>and {len(wrong) - MAX_LISTED} more.</p>"
            if len(wrong) > MAX_LISTED
            else ""
        )
        headings = ["job", "attempt", "class", "ended", "cost", "lost", "why"]
        table = _table("Wasted attempts", headings, rows)
        again = repeated(each.record for each in wrong)
        headings = ["class", "reason", "attempts", "jobs", "first", "last"]
        repeats = map(_repeated_row, again[:MAX_LISTED])
        groups = _table("Repeated reasons", headings, repeats) if again else ""
        return f"<p>{summed}.</p>{groups}{table}{more}"

    def _cost(self) -> str:
        headings = ["stage", "total", *(purpose.value for purpose in SpentOn)]
        rows: list[list[object]] = []
        stages = by_stage(self.jobs)
        for name, jobs in [*stages.items(), *([("all", self.jobs)] if len(stages) > 1 else [])]:
            amounts = amounts_spent(jobs)
            total = money(sum(amounts.values()))
            rows.append([name, total, *(money(amounts[purpose]) for purpose in SpentOn)])
        prices = self.prices
        note = (
            f"{prices.currency}, list prices of {prices.region}, {prices.date}, "
            "without free tiers and taxes. Task time is ECS's own where it is known, else from "
            "claim to end; the calls around it are counted or modelled. An embedded AWS charges "
            "nothing: this is what the same jobs would cost on AWS."
        )
        return f"{_table('Cost', headings, rows)}<p class=dim>{text(note)}</p>"

    def _jobs(self) -> str:
        rows = []
        for job in sorted(
            self.jobs[:MAX_LISTED], key=lambda each: (each.lane.begin, each.lane.row.key)
        ):
            lane = job.lane
            waited = lane.seconds(self.now, SegmentKind.WAITING, SegmentKind.BACKING_OFF)
            ran = lane.seconds(self.now, SegmentKind.STARTING, SegmentKind.RUNNING)
            row = lane.row
            what = (row.job_id, row.stage, row.state.value, len(lane.attempts))
            beats = sum(each.attempt.beats for each in lane.attempts)
            cells = (*what, _seconds(waited), _seconds(ran), beats, money(job.cost.total))
            rows.append((*cells, self._asked_for(row)))
        headings = ["job", "stage", "state", "attempts", "waited", "ran", "beats", "cost"]
        return _table("Jobs", [*headings, "asked for"], rows)

    def _asked_for(self, row: Lease) -> str:
        """What the request said, a line for each: its label and its job first."""
        pairs = asked_for(row, self.requests.get(row.key), self.now)
        return "\n".join(f"{name}: {value}" for name, value in pairs)


def _wrong_row(each: AttemptCost) -> list[object]:
    record = each.record
    name = record.key.partition("#")[2]
    return [
        name,
        record.attempt.number,
        record.kind or "",
        _moment(record.ended_at),
        money(each.cost.total),
        money(each.lost),
        record.reason or "",
    ]


def _repeated_row(each: Repeated) -> list[object]:
    when = (_moment(each.first_at), _moment(each.last_at))
    return [each.kind, each.reason, each.attempts, each.jobs, *when]


def _moment(moment: datetime | None) -> str:
    return f"{moment:%m-%d %H:%M:%S}"


def _cells(spread: Spread) -> list[object]:
    return [spread.count, _seconds(spread.median), _seconds(spread.p95), _seconds(spread.longest)]


def _saved_figures(jobs: Iterable[JobCost]) -> Iterator[tuple[str, str]]:
    """What jobs that store something for their next attempt did not lose, and its storage."""
    saved, storage = 0.0, 0.0
    for job in jobs:
        saved += sum(each.saved for each in job.attempts)
        storage += job.cost.saved_work
    if saved or storage:
        yield money(saved), "saved for a next attempt"
        yield money(storage), "for its storage"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < _SHORT_S else format_duration(seconds)


def _table(name: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th scope=col>{text(each)}</th>" for each in headings)
    body = "".join(f"<tr>{''.join(map(_cell, headings, row))}</tr>" for row in rows)
    return (
        f'<div class=wide tabindex="0" role=group aria-label="{name}; scrolls">'
        f"<table class=stacks><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(heading: str, value: object) -> str:
    kind = ""
    if heading in _SAID:
        kind = ' class="said long"'
    elif heading == "job":
        kind = ' class="job long"'
    elif isinstance(value, str) and value in {*State}:
        kind = f' class="state-{value.lower()}"'
    return f'<td{kind} data-name="{text(heading)}">{text(value)}</td>'
