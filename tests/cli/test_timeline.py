"""The timeline as HTML: positions, words, and hostile text."""

import re
from dataclasses import replace
from datetime import datetime, timedelta
from xml.etree import ElementTree as ET

from longhaul.cli.display.timeline_html import CSS, timeline_html
from longhaul.core.lease import Lease, State
from longhaul.operations.timeline import Lane, lane, together
from tests.builders import NOW, record, running, there
from tests.cli.page.conftest import Elements

EVIL = "</title><script>alert(1)</script>\" onload='x' \u202e\x1b[31m &amp; "


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def job(name: str = "january", reason: str = "exit code 1", **changes: object) -> Lane:
    row: Lease = replace(
        running(), key=f"main#{name}", state=State.DEAD, settled_attempt=1, settled_at=at(100)
    )
    row = replace(row, **changes)  # type: ignore[arg-type]
    only = record(claimed_at=at(25), queued_at=at(0), started_at=at(50), ended_at=at(100))
    only = replace(only, key=row.key, kind="failed", reason=reason, state=row.state)
    return lane(row, [only])


def plot(page: str) -> ET.Element:
    """The SVG with the lanes, parsed as XML, so that it is well-formed."""
    found = there(
        re.search(r'<div class="tl-plot">(<svg.*</svg>)</div></div><figcaption', page, re.DOTALL)
    )
    return ET.fromstring(found[1])  # noqa: S314 - our own


def rects(page: str) -> list[tuple[str, str, str]]:
    return [
        (str(each.get("class")), str(each.get("x")), str(each.get("width")))
        for each in plot(page).iter("rect")
        if each.get("class") != "tl-row"
    ]


def test_segments_are_placed_by_time_and_carry_the_outcome() -> None:
    assert rects(timeline_html([job()], at(100))) == [
        ("tl-waiting", "0.0%", "25.0%"),
        ("tl-starting tl-failed", "25.0%", "25.0%"),
        ("tl-running tl-failed", "50.0%", "50.0%"),
    ]


def test_each_lane_is_described_in_words() -> None:
    page = timeline_html([job(), job("february", state=State.SUCCEEDED)], at(100))
    assert "<title>Timeline of 2 jobs, 2026-01-02 03:04:05Z to 2026-01-02 03:05:45Z</title>" in page
    assert ": main, dead, 1 attempt, waited 25s, ran 1m15s</span>" in page
    assert (
        "attempt 1 running: 2026-01-02 03:04:55Z, 50s\nsmall, 0 beats\nfailed: exit code 1" in page
    )


def test_names_and_errors_are_only_text() -> None:
    page = timeline_html([job(EVIL, EVIL)], at(100), href=lambda each: f"/job?id={each.row.job_id}")
    plot(page)
    found = Elements(page).found
    assert "script" not in {tag for tag, _ in found}
    assert not [name for _, given in found for name in given if name.startswith("on")]
    assert not set("\u202e\x1b") & set(re.sub(r'href="[^"]*"', "", page))
    assert page.count("&lt;script&gt;") >= 3


def test_jobs_in_one_lane_are_few_bars_with_what_went_wrong_above_the_others() -> None:
    jobs = [job(f"job-{n}", state=State.SUCCEEDED if n else State.DEAD) for n in range(300)]
    well = [replace(record, kind="succeeded") for each in jobs[1:] for record in each.attempts]
    lanes = [jobs[0], *(lane(each.row, [one]) for each, one in zip(jobs[1:], well, strict=True))]
    page = timeline_html([together(lanes, "2026-10-05/clean")], at(100))
    assert [css for css, _, _ in rects(page)] == [
        "tl-waiting",
        "tl-starting tl-succeeded",
        "tl-running tl-succeeded",
        "tl-starting tl-failed",
        "tl-running tl-failed",
    ]
    assert "Timeline of 300 jobs, " in page
    assert ": main, dead, 300 jobs, 300 attempts, " in page
    assert "and 298 more" in page


def test_every_css_class_has_a_style_and_nothing_is_loaded() -> None:
    page = timeline_html([job(), job("open", state=State.RELEASED, retry_at=at(500))], at(100))
    assert "url(" not in CSS
    used = {name for group in re.findall(r'class="([^"]+)"', page) for name in group.split()}
    styled = set(re.findall(r"\.(tl-[a-z0-9-]+|timeline)", CSS))
    assert used <= styled
