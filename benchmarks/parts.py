"""Time of a whole job that stores its output in parts, over the same job that stores nothing.

No attempt is interrupted: the ratio is what the parts cost. Both sides compute and write each input
by itself. The embedded S3 runs on the same cores, and copies the bytes of the parts for the output,
which Amazon's does elsewhere. `cpu_s` is the CPU time of the task and its JVM, and `s3_cpu_s` that
of this process, which is the S3's.
"""

import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import ours, pairs
from benchmarks.spark_throughput import RESOURCES, write_rows
from longhaul.runner.spark.jvm import cache_path

_MB = 1_000_000


def main() -> int:
    parser = pairs.parser(__doc__, 5)
    parser.add_argument("--mb", type=int, default=500, help="size of the input (default: 500)")
    parser.add_argument("--parts", type=int, default=12, help="parts (default: 12)")
    arguments = parser.parse_args()
    cpu: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = folder / "rows"
        size = write_rows(rows, arguments.mb * _MB, arguments.parts)
        with ours.tasks(folder, RESOURCES) as tasks:
            inputs = {}
            for file in sorted(rows.iterdir()):
                inputs[f"rows_{file.stem}"] = f"s3://{ours.BUCKET}/rows/{file.name}"
                tasks.s3.upload_file(str(file), ours.BUCKET, f"rows/{file.name}")

            def timed(job: str) -> float:
                started, used, used_here = time.perf_counter(), _of_children(), time.process_time()
                tasks.run(job, inputs)
                took = time.perf_counter() - started
                found = _of_children() - used, time.process_time() - used_here
                cpu.setdefault(job, []).append(found)
                return took

            mine, theirs = pairs.take_turns(
                lambda: timed("rows_in_parts"),
                {"nothing stored": lambda: timed("rows_of_inputs")},
                arguments.runs,
            )
    facts = {
        "input_mb": size // _MB,
        "parts": arguments.parts,
        "aot_cache": cache_path().is_file(),
        "cpu_s": _medians(cpu, 0),
        "s3_cpu_s": _medians(cpu, 1),
    }
    measured = {label: pairs.ratios(mine, found) for label, found in theirs.items()}
    pairs.show(
        "time for a whole job in parts, over the other's", measured, facts, as_json=arguments.json
    )
    return 0


def _of_children() -> float:
    """CPU seconds of all processes that have ended below this one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _medians(cpu: dict[str, list[tuple[float, float]]], which: int) -> dict[str, float]:
    return {
        job: round(statistics.median(each[which] for each in found), 1)
        for job, found in cpu.items()
    }


if __name__ == "__main__":
    sys.exit(main())
