"""The report: complete, self-contained, and safe from hostile text."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from longhaul.domain.message import Message
from longhaul.domain.verdict import OutcomeClass
from tests.builders import BODY
from tests.cli.conftest import World
from tests.cli.page.scenes import multitude

EVIL = "</style></td><script>alert(1)</script><img src=x onerror=alert(1)> \u202e\x1b[31m\" ' &amp;"


class Page(HTMLParser):
    """The elements, attributes and text that a browser finds in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.said: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.said.append(data)


@pytest.fixture
def written(world: World, tmp_path: Path) -> Path:
    """A report of a job that was tried twice, one that died, and one that runs."""
    first = world.claim("january")
    world.clock.advance(60)
    second = world.retry(world.end(first, OutcomeClass.FAILED, EVIL))
    world.clock.advance(120)
    world.end(second, OutcomeClass.SUCCEEDED)
    world.end(world.claim("february"), OutcomeClass.PERMANENT, "no such file")
    world.claim("march")
    file = tmp_path / "report.html"
    done = world.run("report", "-o", str(file))
    assert (done.exit_code, done.stdout) == (0, f"{file}\n"), done.stderr
    return file


def test_the_report_shows_timeline_outcomes_waits_retries_and_cost(written: Path) -> None:
    page = Page(written.read_text())
    said = "".join(page.said)
    assert page.tags.count("h2") == 6
    for words in (
        "1 of 3",
        "jobs succeeded",
        "1 failed, 1 permanent.",
        "no such file",
        "january",
        "march",
        "USD",
    ):
        assert words in said
    assert "stack Longhaul on AWS, us-east-1" in said
    assert page.tags.count("svg") > 1


def test_every_part_that_scrolls_has_a_name(written: Path) -> None:
    parts = re.findall(r"<[^>]*tabindex[^>]*>", written.read_text())
    assert len(parts) == 6
    assert [part for part in parts if "aria-label" not in part or "role=" not in part] == []


def test_the_report_loads_nothing_and_runs_nothing(written: Path) -> None:
    text = written.read_text()
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert not [
        name for name, _ in page.attributes if name.startswith("on") or name in ("src", "href")
    ]
    assert "url(" not in text
    assert "default-src 'none'" in text
    assert not re.findall(r"https?://(?!www\.w3\.org)", text)


def test_text_of_jobs_is_not_markup(written: Path) -> None:
    text = written.read_text()
    assert "&lt;script&gt;alert(1)" in text
    assert not set("\u202e\x1b") & set(text)


def test_every_tag_is_closed(written: Path) -> None:
    opened: list[str] = []
    problems: list[str] = []

    class Nesting(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            del attrs
            if tag not in ("meta", "input"):
                opened.append(tag)

        def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None: ...

        def handle_endtag(self, tag: str) -> None:
            if not opened or opened.pop() != tag:
                problems.append(tag)

    Nesting().feed(written.read_text())
    assert (opened, problems) == ([], [])


def test_a_report_without_jobs_says_so(world: World, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    assert world.run("report", "-o", str(file)).exit_code == 0
    assert "No jobs to show." in file.read_text()


def test_a_missing_folder_is_not_created(world: World, tmp_path: Path) -> None:
    done = world.run("report", "-o", str(tmp_path / "no" / "report.html"))
    assert (done.exit_code, "there is no folder" in done.stderr) == (2, True)


def test_what_was_asked_for_is_shown_as_text_and_without_secrets(
    world: World, tmp_path: Path
) -> None:
    row = world.end(world.claim("january"), OutcomeClass.SUCCEEDED)
    params = {"of": EVIL, "api_key": "sk-0123456789abcdef0123456789abcdef"}
    request = {**BODY, "params": params}
    world.parts.requests.put(row.request_ref, Message(json.dumps(request), {}))
    file = tmp_path / "report.html"
    world.run("report", "-o", str(file))
    page = Page(file.read_text())
    said = "".join(page.said)
    assert f"writes to: {BODY['output']}" in said
    assert "</td><script>" in said
    assert "script" not in page.tags
    assert "sk-0123456789abcdef" not in said
    (record,) = map(json.loads, world.run("history", "january", "--json").stdout.splitlines())
    assert record["request"]["output"] == BODY["output"]
    assert "sk-0123456789abcdef" not in json.dumps(record)


def test_of_thousands_of_jobs_all_are_counted_and_five_hundred_listed(
    world: World, tmp_path: Path
) -> None:
    multitude(world, 1_200)
    file = tmp_path / "report.html"
    assert world.run("report", "-o", str(file)).exit_code == 0
    page = file.read_text()
    assert "1,200 jobs (the timeline and the list of jobs have the first 500" in page
    assert "<dt>jobs succeeded</dt><dd>1200 of 1200</dd>" in page
    assert page.count("<li title=") == 500
    assert "job-01199" in page
    assert "job-00699" not in page
