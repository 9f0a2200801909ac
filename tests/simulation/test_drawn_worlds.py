"""Worlds drawn from seeds; `make soak` runs more of them."""

import pytest

from simulation.tools.checking import all_hold

_AT_ONCE = 50


@pytest.mark.parametrize("first", range(0, 100, _AT_ONCE))
def test_every_invariant_holds_in_worlds_of_many_faults(first: int) -> None:
    assert all_hold(range(first, first + _AT_ONCE)) == _AT_ONCE
