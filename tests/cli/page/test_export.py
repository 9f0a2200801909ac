"""The page in a file: it loads nothing, can do nothing, and is safe from hostile text."""

from pathlib import Path

import pytest

from longhaul.core.verdict import OutcomeClass
from tests.cli.conftest import World
from tests.cli.page.conftest import Elements, words
from tests.cli.page.scenes import multitude

EVIL = "</style></td><script>alert(1)</script><a href=x>\u202e\x1b[31m\" ' &amp;"


@pytest.fixture
def written(world: World, tmp_path: Path) -> str:
    """Of a job that was tried twice, one that died, and one that runs."""
    first = world.claim("january")
    world.clock.advance(60)
    second = world.retry(world.end(first, OutcomeClass.FAILED, "the disk is full"))
    world.clock.advance(120)
    world.end(second, OutcomeClass.SUCCEEDED)
    world.end(world.claim("february"), OutcomeClass.PERMANENT, EVIL)
    world.claim("march")
    file = tmp_path / "page.html"
    done = world.run("console", "--export", str(file))
    assert (done.exit_code, done.stdout) == (0, f"{file}\n"), done.stderr
    return file.read_text()


def test_it_shows_jobs_states_reasons_and_the_timeline(written: str) -> None:
    said = words(written)
    for each in ("january", "succeeded", "february", "dead", "march", "running", "Timeline"):
        assert each in said
    assert len(Elements(written).of("svg")) > 1


def test_it_loads_nothing_and_leads_nowhere(written: str) -> None:
    found = Elements(written).found
    assert not {"script", "link", "img", "a", "form", "button", "dialog"} & {
        tag for tag, _ in found
    }
    assert not [name for _, given in found for name in given if name in ("src", "href")]
    assert "default-src 'none'" in written


def test_text_of_jobs_is_not_markup_and_takes_nothing_out(written: str) -> None:
    assert (
        "&lt;/style&gt;&lt;/td&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;a href=x&gt;" in written
    )
    assert not set("\u202e\x1b") & set(written)


def test_of_thousands_of_jobs_all_are_counted_and_five_hundred_listed(
    world: World, tmp_path: Path
) -> None:
    multitude(world, 1_200)
    file = tmp_path / "page.html"
    assert world.run("console", "--export", str(file)).exit_code == 0
    page = file.read_text()
    assert "1,200" in page
    assert "job-01199" in page
    assert "job-00699" not in page


def test_a_missing_folder_is_not_created(world: World, tmp_path: Path) -> None:
    done = world.run("console", "--export", str(tmp_path / "no" / "page.html"))
    assert (done.exit_code, "there is no folder" in done.stderr) == (2, True)
