"""The report in a real browser: Debian's chromium, headless."""

from pathlib import Path

import pytest

from longhaul.domain.verdict import OutcomeClass
from tests.chromium import CONTRAST, MARKS, chromium
from tests.cli.conftest import World
from tests.cli.page.scenes import crowd

pytestmark = MARKS

LONG = "java.lang.IllegalStateException: the input does not hold what it says, " * 8
TOO_WIDE = """
[...document.querySelectorAll('.wide')].filter(each => each.scrollWidth > each.clientWidth)
  .map(each => each.textContent.slice(0, 60))
"""


@pytest.mark.parametrize("width", [320, 400, 700, 1000])
def test_long_reasons_of_wasted_attempts_wrap(world: World, tmp_path: Path, width: int) -> None:
    for n in range(2):  # a reason that came twice has a table of its own
        world.end(world.claim(f"job-{n}"), OutcomeClass.PERMANENT, LONG)
    file = tmp_path / "report.html"
    assert world.run("report", "-o", str(file)).exit_code == 0

    with chromium() as browser:
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.goto(file.as_uri())

        assert page.get_by_role("columnheader", name="reason").count() == 1
        assert page.evaluate(TOO_WIDE) == []


OVERLAPPING = """
(() => {
  const times = [...document.querySelectorAll('.tl-axis .tl-z1')]
    .map(each => each.getBoundingClientRect());
  return times.filter((each, n) => n > 0 && each.left < times[n - 1].right).length;
})()
"""


def test_a_narrow_window_shows_the_whole_report(world: World, tmp_path: Path) -> None:
    crowd(world, 30)
    world.end(world.claim("x" * 128), OutcomeClass.PERMANENT, LONG)
    file = tmp_path / "report.html"
    assert world.run("report", "-o", str(file)).exit_code == 0

    with chromium() as browser:
        page = browser.new_page(viewport={"width": 400, "height": 800})
        page.goto(file.as_uri())

        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert page.evaluate(TOO_WIDE) == []
        assert page.evaluate(OVERLAPPING) == 0
        heading = "getComputedStyle(document.querySelector('td'), '::before').content"
        assert page.evaluate(heading) == '"stage"'
        heights = "[...document.querySelectorAll('.zoom label')].map(each => each.offsetHeight)"
        assert min(page.evaluate(heights)) >= 24


def test_a_printed_report_leaves_no_rows_off(world: World, tmp_path: Path) -> None:
    crowd(world, 60)
    file = tmp_path / "report.html"
    assert world.run("report", "-o", str(file)).exit_code == 0

    with chromium() as browser:
        page = browser.new_page(viewport={"width": 720, "height": 1000})
        page.emulate_media(media="print")
        page.goto(file.as_uri())

        assert page.get_by_role("row").count() > 60
        tall = "[...document.querySelectorAll('.wide')].map(e => e.scrollHeight - e.clientHeight)"
        assert max(page.evaluate(tall)) <= 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_of_a_report_has_enough_contrast(
    world: World, tmp_path: Path, scheme: str
) -> None:
    empty, full = tmp_path / "empty.html", tmp_path / "full.html"
    assert world.run("report", "-o", str(empty)).exit_code == 0
    crowd(world, 10)
    assert world.run("report", "-o", str(full)).exit_code == 0

    with chromium() as browser:
        page = browser.new_page(color_scheme=scheme)
        for file in (empty, full):
            page.goto(file.as_uri())
            assert page.evaluate(CONTRAST) == []
