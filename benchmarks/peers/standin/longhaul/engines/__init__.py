"""Stands in for `engines` in the tasks that start here. Only Fargate's runner differs."""

import sys
from pathlib import Path

_REPOSITORY = Path(__file__).parents[4]
__path__.append(str(_REPOSITORY / "engines"))
sys.path.insert(1, str(_REPOSITORY))  # for this checkout's `jobs` and `longhaul`
