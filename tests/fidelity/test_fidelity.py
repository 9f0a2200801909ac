"""Each engine answers as the table of rules says.

A change of moto, of the oracle or of a fake fails here, and so shows what has been mended. Stock
moto is asked what a repair is about: once it answers as AWS does, the repair can go.
"""

from collections.abc import Iterator

import pytest

from tests.contract.conftest import Aws
from tests.fidelity.rule import NOT_ASKED, Rule
from tests.fidelity.rules import ENGINES, RULES

ALL = [rule for rules in RULES.values() for rule in rules]
# `make check` leaves out what has moto in its name.
IDS = {"fake": "fake", "stock": "stock moto", "embedded": "repaired moto", "oracle": "oracle"}


def asked() -> Iterator[object]:
    """Each engine with the rules that it can be asked."""
    for engine in ENGINES:
        # It is installed first, from npm.
        marks = [pytest.mark.slow] if engine == "oracle" else []
        # A thread of stock moto may break off with any error, at a time that differs.
        if engine == "stock":
            marks.append(
                pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
            )
        for service, rules in RULES.items():
            for rule in rules:
                is_of_another = engine == "oracle" and service != "DynamoDB"
                if not is_of_another and rule.expected(engine) != (NOT_ASKED,):
                    yield pytest.param(engine, rule, id=f"{IDS[engine]}-{rule.name}", marks=marks)


@pytest.mark.parametrize(("engine", "rule"), list(asked()), indirect=["engine"], scope="module")
def test_engine_answers_as_the_table_says(
    engine: object, rule: Rule, aws: Aws, request: pytest.FixtureRequest
) -> None:
    del engine
    name = request.node.callspec.params["engine"]
    assert rule.probe(aws) in rule.expected(name)


def test_each_rule_stands_once() -> None:
    names = [rule.name for rule in ALL]
    assert sorted(names) == sorted(set(names))


def test_each_difference_says_who_is_right() -> None:
    silent = [
        rule.name
        for rule in ALL
        if (rule.fake, rule.embedded, rule.oracle) != (None, None, None) and not rule.why
    ]
    assert silent == []


def test_each_repair_changes_the_answer() -> None:
    for rule in ALL:
        if rule.repair is not None:
            assert set(rule.expected("stock")).isdisjoint(rule.expected("embedded")), rule.name
