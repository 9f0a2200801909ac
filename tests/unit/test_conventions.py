"""What the house has agreed on, kept by tests."""

import ast
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!https?://)([^)#]+)(?:#[^)]*)?\)")


def imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize("file", sorted((ROOT / "longhaul" / "domain").glob("*.py")), ids=lambda file: file.stem)
def test_the_domain_knows_neither_aws_nor_the_environment_nor_what_is_built_on_it(file: Path) -> None:
    outside = {"boto3", "botocore", "os", "time", "aws_lambda_powertools"}
    for name in imports(file):
        assert name.partition(".")[0] not in outside
        assert not name.startswith("longhaul.") or name.startswith(("longhaul.domain", "longhaul.settings"))


@pytest.mark.parametrize("file", sorted((ROOT / "longhaul").glob("*.py")), ids=lambda file: file.stem)
def test_use_cases_know_ports_and_no_adapters(file: Path) -> None:
    assert not {name for name in imports(file) if name.startswith(("longhaul.adapters", "boto"))}


@pytest.mark.parametrize("folder", ["longhaul", "functions"])
def test_what_lambda_runs_imports_only_what_the_layer_holds(folder: str) -> None:
    pinned = (ROOT / "functions" / "requirements.txt").read_text()
    for file in sorted((ROOT / folder).rglob("*.py")):
        for name in {name.partition(".")[0] for name in imports(file)} & {
            "jobs",
            "local",
            "console",
            "infra",
            "pyspark",
            "psutil",
            "moto",
        }:
            pytest.fail(f"{file} imports {name}")
    assert {"boto3", "pydantic", "aws-lambda-powertools"} <= {
        line.split("==")[0] for line in pinned.splitlines() if "==" in line
    }


@pytest.mark.parametrize(
    "file", sorted((ROOT / "events").glob("*/*.json")), ids=lambda file: f"{file.parent.name}-{file.stem}"
)
def test_every_event_is_json_of_a_function_that_exists(file: Path) -> None:
    assert isinstance(json.loads(file.read_text()), dict)
    assert (ROOT / "functions" / f"{file.parent.name}.py").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = set(LINK.findall((folder / "README.md").read_text()))
    assert listed == {page.name for page in folder.glob("0*.md")}


def test_every_make_target_of_the_readme_exists_and_says_what_it_does() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"^\$ make ([a-z-]+)", (ROOT / "README.md").read_text(), re.MULTILINE)):
        assert re.search(rf"^{target}:.*## \w", makefile, re.MULTILINE), target


@pytest.mark.parametrize(
    "repair", sorted((ROOT / "local" / "moto_repairs").glob("[a-z]*.py")), ids=lambda repair: repair.stem
)
def test_every_repair_of_moto_says_what_aws_does_and_is_tested_on_stock_moto(repair: Path) -> None:
    if repair.stem == "patching":
        pytest.skip("how repairs get in and out; no repair")
    docstring = ast.get_docstring(ast.parse(repair.read_text())) or ""
    assert "AWS:" in docstring
    assert "Stock moto:" in docstring
    tests = (ROOT / "tests" / "local" / "moto_repairs").glob("test_*.py")
    assert any(repair.stem in test.read_text() for test in tests)
