"""What must hold in every world, in the words of the design (S1 to S13, L1 to L8). Each module enters its checks into `table.TABLE`."""

from tests.simulation.invariants import attempts, ending, follow_ons, messages, output, stages, timing

__all__ = ["attempts", "ending", "follow_ons", "messages", "output", "stages", "timing"]
