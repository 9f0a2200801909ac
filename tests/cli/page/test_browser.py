"""The page in a real browser: Debian's chromium, headless."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Thread
from typing import Any

import pytest

from longhaul.cli.page.serve import serving
from longhaul.cli.target import Target
from longhaul.core import transitions
from longhaul.core.verdict import OutcomeClass
from tests.chromium import CONTRAST, MARKS, chromium, playwright
from tests.cli.conftest import World
from tests.cli.page.scenes import (
    EVIL,
    busy,
    dead,
    hourly,
    member_id,
    started,
    three_stages,
    tree,
    works,
)
from tests.layers import ROOT

pytestmark = MARKS

LEFT = "net::ERR_ABORTED"
"""The error of a refresh that is cut off because the page is left."""
OTHER_THAN = "text => document.querySelector('#as-of').textContent !== text"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def amiss() -> list[str]:
    """Complaints of browsers: none, unless a test expects them and clears this."""
    return []


@pytest.fixture
def opened(
    world: World, target: Target, browser: Any, amiss: list[str]
) -> Iterator[Callable[..., Any]]:
    """Opens the link in a fresh browser; at the end no browser has complained."""
    del world
    with ExitStack() as stack:
        server, guard = stack.enter_context(serving(target, 0))
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        stack.callback(thread.join)
        stack.callback(server.shutdown)

        def open_page(path: str = "/", **context: Any) -> Any:
            fresh = stack.enter_context(browser.new_context(**context))
            shown = fresh.new_page()
            shown.on(
                "console",
                lambda message: (
                    amiss.append(message.text) if message.type in ("error", "warning") else None
                ),
            )
            shown.on("pageerror", lambda error: amiss.append(str(error)))
            shown.on(
                "requestfailed",
                lambda request: (
                    amiss.append(f"{request.url}: {request.failure}")
                    if request.failure != LEFT
                    else None
                ),
            )
            shown.goto(guard.link)
            shown.wait_for_selector("main")
            shown.wait_for_load_state()
            if path != "/":
                shown.goto(guard.link.removesuffix("/") + path)
            return shown

        yield open_page
    assert amiss == []


def test_progress_moves_without_a_reload_until_the_job_has_ended(
    world: World, opened: Callable[..., Any]
) -> None:
    lease = started(world, world.claim("job"), 0.25)
    page = opened()
    page.evaluate("window.mark = 1")
    assert page.locator("#jobs progress").get_attribute("value") == "25.0"
    world.parts.leases.report(
        transitions.report_progress(
            lease.id, {"fraction": 0.75, "phase": "writing"}, world.clock.now()
        )
    )
    world.clock.advance(2)
    page.wait_for_selector("#jobs progress[value='75.0']")
    world.end(lease, OutcomeClass.PERMANENT, EVIL)
    world.clock.advance(2)
    page.wait_for_selector("#jobs >> text=✗ dead")
    assert page.locator("#jobs progress").count() == 0
    assert page.evaluate("window.mark") == 1


def test_a_job_can_be_cancelled_by_keyboard_alone(world: World, opened: Callable[..., Any]) -> None:
    started(world, world.claim("first"))
    world.clock.advance(1)
    started(world, world.claim("second"))
    page = opened()

    def tab_to(text: str) -> None:
        for _ in range(40):
            page.keyboard.press("Tab")
            if (
                page.evaluate("document.activeElement.textContent.replace(/\\s+/g, ' ').trim()")
                == text
            ):
                assert page.evaluate("document.activeElement.matches(':focus-visible')")
                return
        pytest.fail(f"no way to {text}")

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    tab_to("Cancel second")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    # The harmless answer comes first. It and Escape restore the focus.
    assert page.evaluate("document.activeElement.textContent") == "No, go back"
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog:not([open])", state="attached")
    assert "Cancel" in page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open] >> text=Cancel second?")
    tab_to("Cancel the job")
    page.keyboard.press("Enter")
    page.wait_for_selector("#notice >> text=second: running: it is being stopped")
    assert page.evaluate("document.activeElement.id") == "notice"
    marked = {
        key: row.cancel_requested_at
        for key, row in world.parts.leases.load_many(["main#first", "main#second"]).items()
    }
    assert (marked["main#first"], marked["main#second"] is not None) == (None, True)


def test_focus_scroll_and_an_open_question_survive_a_refresh(
    world: World, opened: Callable[..., Any]
) -> None:
    for n in range(120):
        started(world, world.claim(f"month-{n:03}"))
        world.clock.advance(1)
    page = opened("/?window=7d")
    page.evaluate("document.querySelector('.tl-scroll').scrollTop = 200")
    link = page.locator("#jobs tbody tr:nth-child(3) a").first
    link.focus()
    name = link.text_content()
    asked = page.locator("#as-of").text_content()
    # The row above ends, so this row moves up and keeps the focus.
    above = page.locator("#jobs tbody tr").first.get_attribute("data-key")
    first = world.parts.leases.load(above)
    assert first is not None
    world.end(first, OutcomeClass.SUCCEEDED)
    world.clock.advance(2)
    page.wait_for_function(OTHER_THAN, arg=asked)
    assert page.evaluate("document.activeElement.textContent") == name
    assert page.evaluate("document.querySelector('.tl-scroll').scrollTop") == 200
    page.locator("#jobs .actions a").first.click()
    page.wait_for_selector("dialog[open]")
    asked = page.locator("#as-of").text_content()
    world.clock.advance(2)
    page.wait_for_function(OTHER_THAN, arg=asked)
    assert page.locator("dialog[open]").count() == 1


def test_a_button_never_turns_into_that_of_another_job(
    world: World, opened: Callable[..., Any]
) -> None:
    one = started(world, world.claim("one"))
    world.clock.advance(1)
    started(world, world.claim("two"))
    page = opened()
    page.locator("#jobs .actions a").first.focus()
    world.end(one, OutcomeClass.SUCCEEDED)
    world.clock.advance(2)
    page.wait_for_function("() => document.querySelectorAll('#jobs .actions a').length === 1")
    assert page.evaluate("document.activeElement.id") == "jobs-title"


def test_the_content_policy_holds_against_hostile_text(
    world: World, opened: Callable[..., Any]
) -> None:
    dead(world, "evil", EVIL)
    page = opened()
    page.on("dialog", lambda _: pytest.fail("a script of somebody else's ran"))
    home = page.url.removesuffix("/")
    for path in ("/", "/job?stage=main&id=evil", "/dead-letters?stage=main"):
        page.goto(home + path)
        assert page.locator("main script, main [onload], main [style]").count() == 0


def test_everything_can_be_done_without_scripts(world: World, opened: Callable[..., Any]) -> None:
    busy(world)
    page = opened(java_script_enabled=False)
    assert page.locator("#jobs tbody tr").count() == 13
    assert not page.locator("#pause").is_visible()
    page.get_by_role("link", name="Cancel delays-hourly").click()
    page.get_by_role("button", name="Cancel the job").click()
    assert "being stopped" in page.locator("#notice").text_content()


COVERED = """
[...document.querySelectorAll('td .button')].flatMap(button => {
  const own = button.getBoundingClientRect();
  const others = button.closest('tr').querySelectorAll('th, td:not(.actions), progress');
  return [...others].filter(each => {
    const other = each.getBoundingClientRect();
    return !each.contains(button) && other.right > own.left + 1 && other.left < own.right - 1
      && other.bottom > own.top + 1 && other.top < own.bottom - 1;
  }).map(each => each.outerHTML);
})
"""
HIDDEN_ENDS = """
[...document.querySelectorAll('.tl-labels li')].filter(label => {
  const end = label.querySelector('.tl-name span:last-child').getBoundingClientRect();
  return end.right > label.getBoundingClientRect().right;
}).map(label => label.title)
"""


OUT_OF_VIEW = """
[...document.querySelectorAll('td .button')].filter(button => {
  const [own, frame] = [button, button.closest('.wide')].map(each => each.getBoundingClientRect());
  return own.left < frame.left || own.right > frame.right;
}).map(button => button.textContent.replace(/\\s+/g, ' ').trim())
"""


LONG_ID = "x" * 100 + "-" + "y" * 27
LONG = "java.lang.IllegalStateException: s3://longhaul-data/raw/a/path/of/many/parts.parquet " * 9
CUT_OFF = """
[...document.querySelectorAll('.wide, pre')].filter(each => each.scrollWidth > each.clientWidth)
  .map(each => each.getAttribute('aria-label'))
"""
NAMELESS = """
[...document.querySelectorAll('.stacks td.number:not(:empty)')]
  .filter(each => ['none', 'normal', '""'].includes(getComputedStyle(each, '::before').content))
  .map(each => each.outerHTML)
"""


# A link in a line of text may be smaller.
SMALL = """
[...document.querySelectorAll('button, .button, input, select, summary, nav a, #stages a')]
  .filter(each => {
    const { width, height } = each.getBoundingClientRect();
    return height > 0 && (height < 24 || width < 24);
  }).map(each => each.outerHTML)
"""


PATHS = (
    "/",
    f"/job?stage=main&id={LONG_ID}",
    "/job?stage=main&id=months",
    "/dead-letters?stage=main",
)


@pytest.mark.parametrize(
    ("width", "scheme", "font_px"),
    [
        (320, "dark", 16),
        (400, "light", 32),
        (400, "light", 16),
        (700, "dark", 16),
        (1280, "light", 16),
    ],
)
def test_all_of_a_page_can_be_seen_read_and_tapped_in_a_window_of_any_width(
    staged: World, opened: Callable[..., Any], width: int, scheme: str, font_px: int
) -> None:
    world = staged
    busy(world)
    tree(world, 8, 6, name="months")
    for job_id in (LONG_ID, "sql-20261126-180737-d69066-1"):
        dead(world, job_id, LONG)
    world.end(world.claim("again"), OutcomeClass.FAILED, LONG)
    page = opened(viewport={"width": width, "height": 800}, color_scheme=scheme)
    seen = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert seen == {"light": "rgb(255, 255, 255)", "dark": "rgb(18, 22, 28)"}[scheme]
    home = page.url.removesuffix("/")
    for path in PATHS:
        page.goto(home + path)
        # As the settings of a browser do.
        page.evaluate(f"document.documentElement.style.fontSize = '{font_px}px'")
        page.wait_for_selector("td.why", state="attached")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for amiss in (COVERED, OUT_OF_VIEW, HIDDEN_ENDS, SMALL, CONTRAST):
            assert page.evaluate(amiss) == [], path
        if width < 800:  # a row is a card
            assert page.evaluate(CUT_OFF) + page.evaluate(NAMELESS) == [], path


def test_a_paused_page_does_not_refresh(world: World, opened: Callable[..., Any]) -> None:
    page = opened()
    page.get_by_role("button", name="Pause updates").click()
    asked = page.locator("#as-of").text_content()
    world.clock.advance(60)
    with pytest.raises(playwright.TimeoutError):
        page.wait_for_function(OTHER_THAN, arg=asked, timeout=2500)
    page.get_by_role("button", name="Pause updates").click()
    page.wait_for_function(OTHER_THAN, arg=asked)


def test_the_page_reports_that_its_server_ended_and_goes_on_when_it_is_back(
    world: World, opened: Callable[..., Any], amiss: list[str]
) -> None:
    page = opened()
    assert not page.locator("#gone").is_visible()
    page.route("**/*", lambda route: route.abort())
    page.wait_for_selector("#gone", state="visible")
    page.unroute("**/*")
    world.clock.advance(5)
    page.wait_for_selector("#gone", state="hidden")
    assert amiss
    amiss.clear()


def picture(page: Any, name: str, height: int = 700) -> None:
    """Taken for README and docs/operations.md only when asked for."""
    if os.environ.get("UPDATE_PICTURES"):
        page.set_viewport_size({"width": 1100, "height": height})
        page.screenshot(path=ROOT / "docs" / f"console-{name}.png")


def test_a_hundred_jobs_fit_a_screen_and_a_narrow_one_has_the_list_alone(
    staged: World, opened: Callable[..., Any]
) -> None:
    hourly(staged, 17, 4)
    page = opened("/?window=1d", viewport={"width": 1400, "height": 900})
    page.wait_for_selector("#jobs-title >> text=100")
    assert page.locator(".tl-plot svg").bounding_box()["height"] < 900
    assert page.locator("#runs tbody tr").count() == 17
    died = page.locator("#runs tbody tr", has_text="dead")
    assert died.locator("th").text_content() == "2026-01-02T08"
    picture(page, "runs")
    for width in (1400, 700, 400):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(f"innerWidth === {width}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("#timeline").is_visible() == (width > 640)
    died.locator("a").click()
    page.get_by_text("Jobs of clean").click()
    page.get_by_role("link", name="Rerun 2026-01-02T08/clean/02").wait_for()
    picture(page, "run")
    why = "OutOfMemoryError: Container killed due to memory usage"
    claimed = staged.claim("flights-2013-12", first_sent_at=staged.clock.now())
    first = works(staged, started(staged, claimed, 0.4), 90)
    again = staged.retry(staged.end(first, OutcomeClass.OUT_OF_MEMORY, why), after_s=12)
    works(staged, started(staged, again, 0.7), 110)
    page = opened("/job?stage=main&id=flights-2013-12")
    page.locator("#attempts >> text=killed").wait_for()
    picture(page, "kill", height=850)


@pytest.fixture
def staged(world: World) -> World:
    three_stages(world)
    return world


def test_a_tree_unfolds_stays_unfolded_and_fits_a_narrow_window(
    staged: World, opened: Callable[..., Any]
) -> None:
    world = staged
    root = tree(world, 300, 220)
    page = opened("/job?stage=main&id=year", viewport={"width": 400, "height": 900})
    jobs = page.locator("#tree details").nth(1)
    jobs.locator("summary").focus()
    page.keyboard.press("Enter")
    assert jobs.locator("li").count() == 100
    world.claim(member_id(root, 250), world.settings.stages[1])
    world.clock.advance(2)
    page.wait_for_selector("#tree li[data-key=RUNNING] >> text=39")
    assert jobs.get_attribute("open") is not None
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    boxes = [page.locator("#tree .box").nth(n).bounding_box() for n in range(3)]
    assert boxes[0]["y"] < boxes[1]["y"] < boxes[2]["y"]
    page.set_viewport_size({"width": 1400, "height": 900})
    page.wait_for_function("innerWidth === 1400")
    boxes = [page.locator("#tree .box").nth(n).bounding_box() for n in range(3)]
    assert boxes[0]["x"] < boxes[1]["x"] < boxes[2]["x"]
