"""Stands in for `jobs` in the tasks that start here. Only its runner differs from the real one."""

import sys
from pathlib import Path

_REPOSITORY = Path(__file__).parents[4]
__path__.append(str(_REPOSITORY / "jobs"))
sys.path.insert(1, str(_REPOSITORY))  # for this checkout's `longhaul`
