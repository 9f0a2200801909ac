"""The report in a real browser: Debian's chromium, headless."""

from pathlib import Path

import pytest

from longhaul.domain.verdict import OutcomeClass
from tests.chromium import MARKS, chromium
from tests.cli.conftest import World

pytestmark = MARKS

LONG = "java.lang.IllegalStateException: the input does not hold what it says, " * 8
TOO_WIDE = """
[...document.querySelectorAll('.wide')].filter(each => each.scrollWidth > each.clientWidth)
  .map(each => each.textContent.slice(0, 60))
"""


@pytest.mark.parametrize("width", [700, 1000])
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
