"""Generated changes of the code: `make mutation`."""

import ast
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from threading import Event
from types import ModuleType

import pytest

from simulation.tools.mutation import __main__ as tool
from simulation.tools.mutation import forked
from simulation.tools.mutation.forked import tried
from simulation.tools.mutation.operators import mutations
from simulation.tools.mutation.patched import NotAppliedError, apply
from simulation.tools.mutation.results import Result, Work, add, outdated, read, reasons

ROOT = Path(__file__).resolve().parents[2]

SOURCE = '''
LIMIT = 3


def is_late(age, limit=LIMIT):
    """Not changed."""
    logger.info("not changed", extra={"age": 1})
    if age >= limit and not done(age):
        raise ValueError("not changed")
    return min(age, 2)


class Row:
    @property
    def owed(self):
        return ("publish", "delete")
'''


def found(what: str) -> list[tuple[str, str]]:
    return [(each.old, each.new) for each in mutations(SOURCE) if each.what == what]


@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("boundary moved", [("age >= limit", "age > limit")]),
        ("comparison negated", [("age >= limit", "age < limit")]),
        ("and for or", [("age >= limit and (not done(age))", "age >= limit or not done(age)")]),
        ("not left out", [("not done(age)", "done(age)")]),
        ("other function", [("min(age, 2)", "max(age, 2)")]),
        ("constant one more", [("3", "4"), ("2", "3")]),
        ("other text", [("'publish'", "'publish_'"), ("'delete'", "'delete_'")]),
        (
            "element left out",
            [("('publish', 'delete')", "('delete',)"), ("('publish', 'delete')", "('publish',)")],
        ),
        (
            "returns None",
            [
                ("return min(age, 2)", "return None"),
                ("return ('publish', 'delete')", "return None"),
            ],
        ),
    ],
)
def test_code_is_changed_in_small_ways(what: str, changes: list[tuple[str, str]]) -> None:
    assert found(what) == changes


def test_what_only_people_read_is_left_alone() -> None:
    for each in mutations(SOURCE):
        assert ast.unparse(each.make()).count("ot changed") == 3


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = ModuleType("changed_by_a_test")
    made.__file__ = str(tmp_path / "changed_by_a_test.py")
    Path(made.__file__).write_text(SOURCE)
    vars(made).update(logger=ModuleType("logger"), done=lambda age: age < 0)
    vars(made)["logger"].info = lambda *_, **__: None
    exec(compile(SOURCE, made.__file__, "exec"), vars(made))  # noqa: S102 - as an import does
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def test_change_is_seen_through_names_that_were_imported_before(module: ModuleType) -> None:
    is_late, row = module.is_late, module.Row()
    for each in mutations(SOURCE):
        if each.what == "other function":
            apply(each, str(module.__file__), module.__name__)
        if each.new == "('publish',)":
            apply(each, str(module.__file__), module.__name__)

    assert is_late(1) == 2
    assert row.owed == ("publish",)


def test_constant_of_a_module_is_assigned_again(module: ModuleType) -> None:
    change = next(each for each in mutations(SOURCE) if each.old == "3")
    apply(change, str(module.__file__), module.__name__)

    assert module.LIMIT == 4


def test_constant_that_a_class_or_another_constant_reads_is_not_applied(
    module: ModuleType,
) -> None:
    file = Path(str(module.__file__)).parent / "longhaul" / "changed.py"
    file.parent.mkdir()
    source = SOURCE.replace("def is_late", "TWICE = 2 * LIMIT\n\n\ndef is_late")
    file.write_text(source)
    module.__file__ = str(file)
    change = next(each for each in mutations(source) if each.old == "3")

    with pytest.raises(NotAppliedError):
        apply(change, str(file), module.__name__)


def test_change_can_be_undone(module: ModuleType) -> None:
    for each in mutations(SOURCE):
        if each.what in ("returns None", "constant one more") and each.scope != "is_late":
            apply(each, str(module.__file__), module.__name__)()

    assert module.LIMIT == 3
    assert module.Row().owed == ("publish", "delete")


def keys(source: str) -> set[tuple[str, str, int]]:
    return {Work("longhaul/rows.py", each).key for each in mutations(source)}


def test_result_belongs_to_its_function_wherever_that_stands_in_its_file() -> None:
    moved = SOURCE.replace("LIMIT = 3", "LIMIT = 3\nOTHER = 4")
    changed = SOURCE.replace("age >= limit", "age > limit")

    assert len(keys(SOURCE)) == len(list(mutations(SOURCE)))
    assert keys(SOURCE) < keys(moved)
    assert {each for each in keys(SOURCE) if each not in keys(changed)} == {
        Work("longhaul/rows.py", each).key for each in mutations(SOURCE) if each.scope == "is_late"
    }


def test_last_result_of_a_change_counts(tmp_path: Path) -> None:
    state, key = tmp_path / "results.jsonl", ("longhaul/rows.py", "digest", 1)
    assert read(state) == {}
    survived = Result("worlds", "survived", "", ("a", "b"), 20.0)
    killed = Result("tests", "killed", "test_rows")

    add(state, key, survived)
    assert read(state) == {key: survived}
    add(state, key, killed)
    assert read(state) == {key: killed}


def test_list_of_reasons_names_no_change_that_the_code_no_longer_has(tmp_path: Path) -> None:
    listed = tmp_path / "equivalent.toml"
    listed.write_text(
        """
        [[equivalent]]
        file = "longhaul/rows.py"
        line = "if age >= limit and not done(age):"
        changes = ["age >= limit -> age > limit", "age >= limit -> age == limit"]
        why = "no row is of that very second"
        """
    )
    work = [Work("longhaul/rows.py", each) for each in mutations(SOURCE)]

    assert outdated(work, reasons(listed)) == [
        (
            "longhaul/rows.py",
            "if age >= limit and not done(age):",
            1,
            "age >= limit -> age == limit",
        )
    ]


def test_reason_is_of_one_of_two_equal_lines(tmp_path: Path) -> None:
    listed = tmp_path / "equivalent.toml"
    listed.write_text(
        """
        [[equivalent]]
        file = "longhaul/rows.py"
        line = "return age"
        nth = 2
        changes = ["return age -> return None"]
        why = "nobody asks"
        """
    )
    source = "def first(age):\n    return age\n\n\ndef second(age):\n    return age\n"
    work = [Work("longhaul/rows.py", each) for each in mutations(source)]

    assert outdated(work, reasons(listed)) == []
    assert [each.mutation.scope for each in work if each.place in reasons(listed)] == ["second"]


def test_every_reason_is_of_a_change_that_is_made_today() -> None:
    files = {file for file, *_ in reasons()}
    work = [Work(file, each) for file in files for each in mutations((ROOT / file).read_text())]

    assert outdated(work, reasons()) == []


def test_change_that_has_run_already_is_not_applied(module: ModuleType) -> None:
    default = SOURCE.replace("limit=LIMIT", "limit=7")
    change = next(each for each in mutations(default) if each.old == "7")

    with pytest.raises(NotAppliedError):
        apply(change, str(module.__file__), module.__name__)


# As in the tool's own processes. A fork of a process of tests may wait for a lock of theirs.
TRIES_DEFAULTS = """
import json, sys
from simulation.tools.mutation.loaded import on_tests_of_its_module
from simulation.tools.mutation.operators import mutations
from simulation.tools.mutation.tests_of import Seen

folder = sys.argv[1]
sys.path.insert(0, folder)
tests = folder + "/test_changed_rows.py"
seen = {tests: Seen("", {"test_late": 0.1}, {("changed_rows.py", 2): {"test_late"}})}
options = ("-q", "-p", "no:cacheprovider", "-c", "/dev/null")
found = {
    each.new: on_tests_of_its_module("changed_rows.py", each, seen, options, 30).outcome
    for each in mutations(open(folder + "/changed_rows.py").read())
    if each.old == "7"
}
print(json.dumps(found))
"""


@pytest.mark.slow
def test_change_that_has_run_already_is_tried_as_its_module_is_loaded(tmp_path: Path) -> None:
    source = "def is_late(age, limit=7):\n    return age > limit\n"
    (tmp_path / "changed_rows.py").write_text(source)
    (tmp_path / "test_changed_rows.py").write_text(
        "from changed_rows import is_late\n\n\ndef test_late():\n    assert is_late(8)\n"
    )

    command = [sys.executable, "-c", TRIES_DEFAULTS, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"8": "killed", "6": "survived"}


@pytest.mark.slow
def test_attempt_ends_by_its_code_by_its_error_or_by_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(_say: object) -> int:
        raise ValueError("too late")

    def says(say: object) -> int:
        say("a test")
        return 1

    def goes_on(_say: object) -> int:
        while True:
            math.sqrt(2)

    def waits(_say: object) -> int:
        Event().wait()
        return 0

    monkeypatch.setattr(forked, "_IDLE_S", 0.5)
    assert tried(waits, 60).outcome == "hung"
    assert tried(lambda _: 0, 5).outcome == "survived"
    assert tried(lambda _: 3, 5).outcome == "not applied"
    assert tried(says, 5) == ("killed", "a test")
    assert tried(fails, 5) == ("killed", "ValueError: too late")
    assert tried(goes_on, 1).outcome == "hung"


@pytest.mark.slow
def test_tests_run_though_the_tool_has_loaded_the_product_before_them() -> None:
    """The product is a plugin of pytest, which warns that it can no longer rewrite its asserts."""
    code = (
        "import sys, pytest, simulation.tools.mutation.worlds_of\n"
        "from simulation.tools.mutation.__main__ import _PYTEST\n"
        "sys.exit(pytest.main([*_PYTEST, 'tests/unit/test_clock.py']))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_root_tries_no_change_because_it_may_delete_any_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(sys, "argv", ["mutation", "--sample", "0"])
    with pytest.raises(SystemExit):
        tool.main()
    assert "run it as a user who owns nothing else" in capsys.readouterr().err
