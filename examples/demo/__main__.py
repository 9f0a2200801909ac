"""Starts the demo: `python -m examples.demo`, which `longhaul demo` runs."""
# ruff: noqa: PLC0415 - loading takes seconds, in which Ctrl-C must not end in a traceback

import argparse
import sys
from pathlib import Path

from longhaul.cli.synth import DEFAULT_WORK_DIR, SynthError

_FAILED = 1
_INTERRUPTED = 130


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description="Run the demo.")
    parser.add_argument(
        "--work-dir",
        type=Path,
        default=DEFAULT_WORK_DIR,
        help="folder of the logs, the synthesized stack and the report (default: .longhaul)",
    )
    parser.add_argument(
        "--no-iam", action="store_true", help="let functions and tasks do what their roles forbid"
    )
    given = parser.parse_args()
    try:
        return _run(given.work_dir, enforce_roles=not given.no_iam)
    except KeyboardInterrupt:
        return _INTERRUPTED


def _run(work_dir: Path, *, enforce_roles: bool) -> int:
    from rich.console import Console

    from examples.demo.run import run
    from longhaul.cli.local.work_dir import work_in
    from longhaul.config.errors import SettingsError
    from longhaul.local.assembly import DeployError
    from longhaul.local.work_dir import WorkDirError

    try:
        with work_in(work_dir):
            return run(Console(), work_dir, enforce_roles=enforce_roles)
    except (DeployError, SettingsError, SynthError, WorkDirError) as error:
        sys.stderr.write(f"longhaul: {error}\n")
        return _FAILED


if __name__ == "__main__":
    sys.exit(main())
