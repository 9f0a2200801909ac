"""What must hold in every world, in the words of the design (S1 to S11, L1 to L6). Each module enters its checks into `table.TABLE`."""

from tests.simulation.invariants import attempts, ending, messages, output, timing

__all__ = ["attempts", "ending", "messages", "output", "timing"]
