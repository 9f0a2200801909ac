"""Worlds drawn from seeds. `make soak` runs as many as one likes."""

import pytest

from tests.simulation.checking import all_hold

_AT_ONCE = 50


@pytest.mark.parametrize("first", range(0, 200, _AT_ONCE))
def test_every_invariant_holds_in_worlds_of_many_faults(first: int) -> None:
    assert all_hold(range(first, first + _AT_ONCE)) == _AT_ONCE
