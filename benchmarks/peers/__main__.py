"""Longhaul beside sqs-consumer, a loop over boto3, and Celery, on the same work.

    .venv/bin/python -m benchmarks.peers [--json] [--ages 20 100 300] [--patience 2400]

It takes three quarters of an hour, in which nearly everything waits.
"""

import argparse
import json
import logging
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.consumers import CONSUMERS
from benchmarks.peers.measure import Extent, Figures, measured
from benchmarks.peers.report import picture, table
from benchmarks.peers.virtual import beyond_the_cap

PICTURE = Path(__file__).parents[2] / "docs" / "peers.svg"
_SHORT = "Longhaul, no back-off"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="one object on stdout")
    parser.add_argument("--ages", type=float, nargs="+", default=Extent.ages)
    parser.add_argument("--lengths", type=float, nargs="+", default=Extent.lengths)
    parser.add_argument("--patience", type=float, default=Extent.patience_s)
    parser.add_argument("--of", nargs="+", choices=CONSUMERS, default=list(CONSUMERS))
    parser.add_argument("--draw", action="store_true", help=f"write docs/{PICTURE.name}")
    options = parser.parse_args(arguments)
    extent = Extent(options.ages, options.lengths, options.patience)
    if len(options.of) == 1:
        figures = {options.of[0]: _of_one(options.of[0], extent)}
    else:
        for name in options.of:
            CONSUMERS[name].install()
        figures = _of_all(options.of, extent)
    if options.draw:
        PICTURE.write_text(picture(figures, extent))
    sys.stdout.write(json.dumps(figures) + "\n" if options.json else table(figures))


def _of_one(name: str, extent: Extent) -> Figures:
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        figures = measured(name, Path(folder), extent, short=name == _SHORT)
    return figures | (beyond_the_cap() if name == "Longhaul" else {})


def _of_all(names: Sequence[str], extent: Extent) -> dict[str, Figures]:
    """All at once, each in a process of its own with an AWS of its own."""
    command = [
        *(sys.executable, "-m", "benchmarks.peers", "--json"),
        *("--ages", *map(str, extent.ages)),
        *("--lengths", *map(str, extent.lengths)),
        *("--patience", str(extent.patience_s)),
        "--of",
    ]
    started = {
        name: subprocess.Popen(
            [*command, name],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    }
    figures: dict[str, Figures] = {}
    for process in started.values():
        answer, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"{process.args!r} failed")
        figures |= json.loads(answer)
    return figures


if __name__ == "__main__":
    main(sys.argv[1:])
