"""Each engine answers as the table of rules says.

A change of moto, of an oracle or of a fake fails here, and so shows what has been mended.
"""

import pytest

from tests.fidelity.page import PAGE, RULES, page
from tests.fidelity.rule import NOT_ASKED, Rule

ALL = [rule for rules in RULES.values() for rule in rules]


@pytest.mark.parametrize("rule", ALL, ids=[rule.name for rule in ALL])
def test_engine_answers_as_the_table_says(
    engine: str, rule: Rule, request: pytest.FixtureRequest
) -> None:
    expected = rule.expected(engine)
    if expected == (NOT_ASKED,):
        pytest.skip("the engine lacks what the rule is about")
    assert rule.probe(request.getfixturevalue("aws")) in expected


def test_page_is_made_of_the_table() -> None:
    assert PAGE.read_text() == page(), "make it again: python -m tests.fidelity.page"


def test_each_difference_says_who_is_right() -> None:
    silent = [
        rule.name
        for rule in ALL
        if (rule.fake, rule.embedded, rule.oracle) != (None, None, None) and not rule.why
    ]
    assert silent == []
