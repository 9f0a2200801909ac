"""The ceilings of the repository's rooms hold, and are near what they hold."""

import pytest

from tests.size import CEILINGS, sizes, statements

ROOM_ABOVE = 1.02
"""A ceiling far above its room lets the room grow unseen: lower it with what went."""


@pytest.fixture(scope="module")
def found() -> dict[str, int]:
    return dict(sizes())


@pytest.mark.parametrize("room", CEILINGS)
def test_a_room_stays_below_its_ceiling_and_takes_it_down_with_it(
    found: dict[str, int], room: str
) -> None:
    assert found[room] <= CEILINGS[room] <= found[room] * ROOM_ABOVE + 20


def test_docstrings_comments_and_line_breaks_are_no_statements() -> None:
    assert (
        statements('"""Why."""\n\n# a comment\nx = [\n    1,\n]\n\n\ndef f():\n    "Why."\n') == 2
    )
