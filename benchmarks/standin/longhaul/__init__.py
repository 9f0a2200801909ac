"""Stands in for `longhaul` in the tasks that start here. Only Fargate's runner differs."""

from pathlib import Path

# What is not here is the checkout's.
__path__.append(str(Path(__file__).parents[3] / "longhaul"))
