"""The conventions of the repository's code, events, Makefile and repairs of moto."""

import ast
import json
import re
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from longhaul.engines.listed import ENGINES
from tests.layers import FEATURES, OF_FILE, ROOT, files_of, layered, module, python_files


def imports(file: Path) -> set[str]:
    """Dotted names of all that a file imports, below their layers."""
    return {layered(name) for name in names_in(ast.parse(file.read_text()))}


def runtime_imports(file: Path) -> set[str]:
    """Dotted names of all that a file imports when it runs, also later, in a function."""
    return names_in(RunTime().visit(ast.parse(file.read_text())))


def names_in(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


class RunTime(ast.NodeTransformer):
    """Takes out what is imported for annotations alone."""

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return node.orelse
        return self.generic_visit(node)


SHARED = {"core", "engines", *FEATURES}
"""What functions and tasks share."""

# What each room of the package, and each package beside it, may import of the others.
ARROWS: dict[str, set[str]] = {
    "core": set(),
    "engines": {"core"},
    "pipelines": {"core"},
    "outputs": {"core"},
    "saved": {"core", "outputs"},
    "notices": {"core", "outputs", "pipelines"},
    "wiring": SHARED,
    "job": SHARED,
    "local": set(),
    "config": SHARED,
    "cdk": {"config", *SHARED},
    "runner": {"job", *SHARED},
    "catalogue": {"job", "runner", *SHARED},
    "testing": {"job", "runner", *SHARED},
    "operations": {"wiring", *SHARED},
    "client": {"operations", *SHARED},
    # `up` runs what `local` has; of the core it has what is typed and shown, and AWS's errors.
    "cli": {"config", "local", "operations", "core.aws_errors", "core.durations", "core.settings"},
    "functions": {"wiring", *SHARED},
    "infra": {"cdk"},
    "examples": {"cdk", "cli", "config", "job", "local", "operations", "runner", *SHARED},
    "simulation": {
        "cdk.definition",
        "cli.entry",
        "cli.place",
        "config.sources",
        "functions",
        "job",
        "operations",
        "runner",
        "wiring",
        *SHARED,
    },
}
PACKAGES = {*ARROWS, "benchmarks", "tests"}
ARROWS["benchmarks"] = PACKAGES - {"tests"}


@pytest.mark.parametrize("package", sorted(ARROWS))
def test_package_imports_only_the_packages_below_it(package: str) -> None:
    allowed = {package, *ARROWS[package]}
    for file in files_of(package):
        for name in imports(file):
            parts = name.split(".")
            if parts[0] in PACKAGES:
                assert {parts[0], ".".join(parts[:2])} & allowed, f"{file} imports {name}"


def is_pure(file: Path) -> bool:
    return bool(re.search(r"\bPure\b", ast.get_docstring(ast.parse(file.read_text())) or ""))


ROOMS = [file for room in sorted(SHARED) for file in files_of(room)]
PURE = [file for file in ROOMS if is_pure(file)]
OUTSIDE = ("aws_cdk", "aws_lambda_powertools", "boto3", "botocore", "os", "pyiceberg", "time")


@pytest.mark.parametrize("file", PURE, ids=module)
def test_what_is_pure_imports_no_aws_no_environment_and_nothing_that_does(file: Path) -> None:
    pure = {module(each) for each in PURE} | {"core.settings"}
    modules = {module(each) for each in ROOMS}
    for name in imports(file):
        assert name.partition(".")[0] not in OUTSIDE
        assert name not in modules or name in pure, f"{file} imports {name}"
        assert name.partition(".")[0] not in PACKAGES - SHARED


def test_every_decision_is_pure() -> None:
    decides = re.compile(r"^def (decide|classify|check|after)_", re.MULTILINE)
    assert not [file for file in ROOMS if decides.search(file.read_text()) and file not in PURE]


def test_use_cases_speak_to_aws_through_ports_alone() -> None:
    aws = {module(file) for file in ROOMS if {"boto3", "botocore.exceptions"} & imports(file)}
    for file in ROOMS:
        if "core.ports.Context" in imports(file):
            assert not imports(file) & aws, file


def test_modules_of_the_core_know_each_other_in_no_circle_and_in_no_annotation() -> None:
    files = [file for room in sorted(SHARED) for file in files_of(room)]
    names = {file: module(file) for file in files}
    graph = {names[file]: imports(file) & set(names.values()) for file in files}
    assert len(list(TopologicalSorter(graph).static_order())) == len(files)


# All code of the repository that is not a test, by its dotted name.
MODULES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts): file
    for folder in ("benchmarks", "examples", "functions", "infra", "longhaul", "simulation")
    for file in python_files(ROOT / folder)
}


@cache  # not while the tests are collected: each worker would read all files
def imported() -> dict[str, set[str]]:
    """What each module imports of the others when it runs."""
    return {name: runtime_imports(file) & MODULES.keys() for name, file in MODULES.items()}


def test_no_modules_import_each_other_in_a_circle() -> None:
    TopologicalSorter(imported()).prepare()


@pytest.mark.parametrize(
    "package",
    [
        "longhaul.cdk",
        "longhaul.cli",
        "longhaul.config",
        "longhaul.local",
        "longhaul.operations",
        "longhaul.runner",
    ],
)
def test_parts_of_a_package_import_each_other_in_no_circle(package: str) -> None:
    """A part is a subpackage as a whole, or a module beside it."""

    def part(name: str) -> str:
        return name.removeprefix(f"{package}.").partition(".")[0]

    inside = [name for name in MODULES if name.startswith(f"{package}.")]
    graph: dict[str, set[str]] = {part(name): set() for name in inside}
    for name in inside:
        graph[part(name)] |= {part(each) for each in imported()[name] if each in inside}
    for name, others in graph.items():
        others.discard(name)
    TopologicalSorter(graph).prepare()


FOLDERS = sorted(each.parent for each in (ROOT / "longhaul" / "engines").glob("*/__init__.py"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_engine_has_the_same_files(folder: Path) -> None:
    files = {file.stem for file in folder.glob("*.*")} - {"settings"}
    assert files == {"__init__", "construct", "ends", "runner", "states", "tasks"}


def test_every_engine_is_listed() -> None:
    listed = {each.classify.__module__ for each in ENGINES.all}
    assert listed == {f"longhaul.engines.{folder.name}.ends" for folder in FOLDERS}


def test_the_name_of_every_file_of_engines_tells_its_layer() -> None:
    assert {file.stem for file in (ROOT / "longhaul" / "engines").rglob("*.py")} == OF_FILE.keys()


def test_functions_import_only_what_their_layer_holds() -> None:
    lines = (ROOT / "functions" / "requirements.txt").read_text().splitlines()
    layer = {line.split("==")[0].replace("-", "_") for line in lines if "==" in line}
    # The layer's packages bring these with them. `psutil` is there for drivers of jobs.
    layer = (layer - {"psutil"}) | {"botocore", "dateutil", "pydantic_core", "zstandard"}
    allowed = {*sys.stdlib_module_names, *PACKAGES, *layer}
    for file in [*files_of("functions"), *ROOMS]:
        for name in imports(file):
            is_for_types_alone = name.startswith(("mypy_boto3_", "pyarrow", "pyspark"))
            assert is_for_types_alone or name.partition(".")[0] in allowed, f"{file}: {name}"


@pytest.mark.parametrize(
    "file",
    sorted((ROOT / "events").glob("*/*.json")),
    ids=lambda file: f"{file.parent.name}-{file.stem}",
)
def test_event_file_is_json_for_an_existing_function(file: Path) -> None:
    assert isinstance(json.loads(file.read_text()), dict)
    is_of_tiny = file.parent.name == "tiny"
    handler = (
        "longhaul/engines/aws_lambda/runner.py"
        if is_of_tiny
        else f"functions/{file.parent.name}.py"
    )
    assert (ROOT / handler).exists()


def test_make_targets_of_the_readme_exist_with_a_help_line() -> None:
    makefile = (ROOT / "Makefile").read_text()
    readme = (ROOT / "README.md").read_text()
    for target in set(re.findall(r"^\$ make ([a-z-]+)", readme, re.MULTILINE)):
        assert re.search(rf"^{target}:.*## \w", makefile, re.MULTILINE), target


REPAIRS = {
    f"{file.stem}.{node.name}": ast.get_docstring(node) or ""
    for file in sorted((ROOT / "longhaul" / "local" / "moto_repairs").glob("[a-z]*.py"))
    for node in ast.parse(file.read_text()).body
    if isinstance(node, ast.FunctionDef) and "patches" in {each.arg for each in node.args.args}
}


@pytest.mark.parametrize("repair", REPAIRS)
def test_moto_repair_describes_aws_and_its_table_names_what_fails_on_stock_moto(
    repair: str,
) -> None:
    assert "AWS:" in REPAIRS[repair]
    assert "Stock moto:" in REPAIRS[repair]
    readme = (ROOT / "longhaul" / "local" / "README.md").read_text()
    (test,) = re.findall(rf"^\| `{repair}` \| .+ \| (.+) \|$", readme, re.MULTILINE)
    files = (ROOT / "tests" / "local" / "moto_repairs").glob("test_*.py")
    shown = f"def {test.strip('`')}("
    if test == "rules of `tests/fidelity`":
        files, shown = (ROOT / "tests" / "fidelity").glob("*.py"), f'Repair("{repair}"'
    assert any(shown in file.read_text() for file in files)
