"""Generated changes of the code: `make mutation`."""

import ast
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

from simulation.tools.mutation.forked import tried
from simulation.tools.mutation.operators import mutations
from simulation.tools.mutation.patched import NotAppliedError, apply

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


def test_change_that_has_run_already_is_not_applied(module: ModuleType) -> None:
    default = SOURCE.replace("limit=LIMIT", "limit=7")
    change = next(each for each in mutations(default) if each.old == "7")

    with pytest.raises(NotAppliedError):
        apply(change, str(module.__file__), module.__name__)


def test_attempt_ends_by_its_code_by_its_error_or_by_its_time() -> None:
    def fails(_say: object) -> int:
        raise ValueError("too late")

    def says(say: object) -> int:
        say("a test")
        return 1

    def goes_on(_say: object) -> int:
        while True:
            math.sqrt(2)

    assert tried(lambda _: 0, 5).outcome == "survived"
    assert tried(lambda _: 3, 5).outcome == "not applied"
    assert tried(says, 5) == ("killed", "a test")
    assert tried(fails, 5) == ("killed", "ValueError: too late")
    assert tried(goes_on, 1).outcome == "hung"
