"""The conventions of the repository's Markdown pages."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.size import TOPS

ROOT = Path(__file__).parents[2]
GENERATED = {"cdk.out", "build"}
PAGES = sorted(
    page
    for page in (*ROOT.glob("*.md"), *ROOT.glob("[a-z]*/**/*.md"))
    if page.relative_to(ROOT).parts[0] not in GENERATED
    and "/." not in str(page.relative_to(ROOT))  # of a project: what a run left there
)
LINK = re.compile(r"\]\((?!https?://)([^)#]+)(?:#[^)]*)?\)")
# docs/jobs.md invents these; the tests of that page run them.
INVENTED = {"jobs/busy_days.py", "tests/test_busy_days.py"}

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def prose(page: Path) -> list[str]:
    """The lines of a page outside fenced code blocks."""
    return re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text()).splitlines()


def anchors(page: Path) -> set[str]:
    """The headings of a page, as GitHub names them in links."""
    titles = (line.lstrip("#").strip() for line in prose(page) if line.startswith("#"))
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@each_page
def test_lines_of_prose_end_at_100_columns(page: Path) -> None:
    may_be_longer = re.compile(r"\|.*|\s*([*-] )?(\S+|\[[^]]*\]\(\S+\))[.,:;]?")
    long = [line for line in prose(page) if len(line) > 100 and not may_be_longer.fullmatch(line)]
    assert long == []


@each_page
def test_blocks_have_their_line_breaks(page: Path) -> None:
    assert [line for line in prose(page) if "```" in line] == []
    assert re.findall(r"(?m)^\$ .* \$ \w.*", page.read_text()) == []


@each_page
def test_links_lead_to_existing_files(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


@each_page
def test_links_to_headings_find_them(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?://)([^)#]*)#([^)]+)\)", page.read_text()):
        assert anchor in anchors(page.parent / target if target else page), f"{target}#{anchor}"


@each_page
def test_paths_of_the_repository_that_a_page_names_exist(page: Path) -> None:
    # Hidden ones hold what was made here: `.longhaul` is there after a demo, and not before.
    folders = {each.name for each in ROOT.iterdir() if each.is_dir() and each.name[0] != "."}
    for path in re.findall(r"`([\w.-]+/[\w./-]*)`", "\n".join(prose(page))):
        if path.partition("/")[0] in folders - GENERATED and path not in INVENTED:
            assert (ROOT / path).exists(), path


def test_readme_has_at_most_900_words() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 900


def test_every_decision_is_listed_and_their_numbers_have_no_holes() -> None:
    folder = ROOT / "docs" / "internals" / "decisions"
    pages = sorted(page.name for page in folder.glob("0*.md"))
    assert LINK.findall((folder / "README.md").read_text()) == pages
    assert [int(page[:4]) for page in pages] == list(range(1, len(pages) + 1))


def test_every_page_and_decision_that_the_code_names_exists() -> None:
    decisions = {page.name[:4] for page in PAGES if page.parent.name == "decisions"}
    for file in (each for folder in TOPS for each in (ROOT / folder).rglob("*.py")):
        text = file.read_text()
        assert set(re.findall(r"decision (\d{4})", text)) <= decisions, file
        for name, anchor in re.findall(r"(docs/[\w/-]+\.md)(?:#([\w-]+))?", text):
            assert (ROOT / name).exists(), f"{file}: {name}"
            assert not anchor or anchor in anchors(ROOT / name), f"{file}: {name}#{anchor}"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning() -> None:
    subprocess.run(["/usr/bin/make", "docs"], cwd=ROOT, check=True)
