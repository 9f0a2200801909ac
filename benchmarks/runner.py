"""Fargate's runner as a task runs it, with the jobs of `benchmarks.catalogue` added."""

import sys
from pathlib import Path

from longhaul import catalogue
from longhaul.engines.fargate import runner

if __name__ == "__main__":
    catalogue.__path__.append(str(Path(__file__).with_name("catalogue")))
    sys.exit(runner.main())
