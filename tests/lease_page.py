"""The tables of `docs/lease.md`, for the tests that compare the code with them."""

from simulation.tools.coverage.page import PAGE, table

__all__ = ["PAGE", "table"]
