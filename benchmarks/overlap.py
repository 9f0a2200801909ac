"""Time of a job that works on its inputs as they come, over the same job once all are there.

Both read, compute and write each input by itself, and each in its turn: the ratio is what it brings
that a job runs beside its download. nginx serves the inputs, each connection at a rate as of a
network: on one machine bytes come faster than to any task. Outputs go to the embedded S3, on the
same cores.

It also gives the most memory that the processes of each side had (resident, in MiB): a download
beside a job needs its memory while the job has all of its own.
"""

import sys
import tempfile
import time
from pathlib import Path

from benchmarks import fast_s3, ours, pairs
from benchmarks.spark_throughput import RESOURCES, most_memory, served, write_rows
from longhaul.runner.spark.jvm import cache_path

_MB = 1_000_000


def main() -> int:
    parser = pairs.parser(__doc__, 3)
    parser.add_argument("--mb", type=int, default=2000, help="size of the inputs (default: 2000)")
    parser.add_argument("--inputs", type=int, default=4, help="how many (default: 4)")
    parser.add_argument("--mb-per-s", type=int, default=10, help="of each connection (default: 10)")
    arguments = parser.parse_args()
    peaks: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = folder / "rows"
        size = write_rows(rows, arguments.mb * _MB, arguments.inputs)
        inputs = {
            f"rows_{file.stem}": f"s3://{ours.BUCKET}/rows/{file.name}"
            for file in sorted(rows.iterdir())
        }
        with (
            ours.tasks(folder, RESOURCES) as started,
            served(started, rows, folder, arguments.mb_per_s * _MB) as (tasks, _),
        ):

            def timed(job: str) -> float:
                began = time.perf_counter()
                with most_memory(peaks.setdefault(job, [])):
                    tasks.run(job, inputs)
                return time.perf_counter() - began

            mine, theirs = pairs.take_turns(
                lambda: timed("rows_of_inputs"),
                {"all inputs first": lambda: timed("rows_all_first")},
                arguments.runs,
            )
    facts = {
        "input_mb": size // _MB,
        "inputs": arguments.inputs,
        # Of each connection, and by nginx alone.
        "mb_per_s": arguments.mb_per_s if fast_s3.is_installed() else None,
        "aot_cache": cache_path().is_file(),
        "memory_mib": {job: round(max(found)) for job, found in peaks.items()},
    }
    measured = {label: pairs.ratios(mine, found) for label, found in theirs.items()}
    pairs.show(
        "time for a whole job beside its download, over the other's",
        measured,
        facts,
        as_json=arguments.json,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
