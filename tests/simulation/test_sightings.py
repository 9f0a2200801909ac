"""What the record makes of what it sees."""

import pytest

from simulation.seen.sightings import DeadLetter
from tests.builders import NOW


@pytest.mark.parametrize(
    ("body", "is_for"),
    [
        ('{"job": "sql", "job_id": "a"}', True),  # the id says what the message's own would
        ('{"job": "sql"}', True),
        ('{"job": "other"}', False),
        ("no JSON", False),
    ],
)
def test_dead_letter_is_for_its_request_with_or_without_the_id(body: str, *, is_for: bool) -> None:
    letter = DeadLetter('{"job": "sql"}', None, {}, NOW)
    assert letter.is_for(body) is is_for
