"""Time from the start of a process until rows have reached the driver, beside `spark-submit`.

Longhaul's side is the runner as a task starts it: it registers, stages its input from the embedded
S3, and runs the job. Plain Spark reads the same rows from local disk.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import ours, pairs, plain
from longhaul.runner.resources import Resources
from longhaul.runner.spark.jvm import cache_path

RESOURCES = Resources(cores=2, memory_mib=4096)
_ROWS = 1000


def main() -> int:
    parser = pairs.parser(__doc__, 9)
    arguments = parser.parse_args()
    if not cache_path().is_file():
        sys.stderr.write(
            "there is no AOT cache here: `python -m longhaul.runner.spark.aot_training` makes it\n"
        )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        javas = {"spark-submit on the same JVM": plain.java_of_the_wheel(folder)}
        if java := plain.system_java():
            javas[f"spark-submit on {java}"] = java
        file = folder / "rows.csv"
        file.write_bytes(rows())
        with ours.tasks(folder, RESOURCES) as tasks:
            tasks.s3.put_object(Bucket=ours.BUCKET, Key="rows.csv", Body=rows())
            stamp = folder / "stamp"

            def run_ours() -> None:
                tasks.run(
                    "first_result", {"rows": f"s3://{ours.BUCKET}/rows.csv"}, stamp=str(stamp)
                )

            others = {
                label: _first(stamp, partial(_submit, home, str(file), str(stamp)))
                for label, home in javas.items()
            }
            mine, theirs = pairs.take_turns(_first(stamp, run_ours), others, arguments.runs)
    measured = {label: pairs.ratios(mine, seconds) for label, seconds in theirs.items()}
    facts = {"aot_cache": cache_path().is_file()}
    pairs.show(
        "time to the first result, over plain Spark's", measured, facts, as_json=arguments.json
    )
    return 0


def rows() -> bytes:
    """The input, as CSV."""
    return "".join(
        f"{n},name-{n % 7},{n / 3:.3f},2013-01-{n % 28 + 1:02},note\n" for n in range(_ROWS)
    ).encode()


def _submit(java_home: Path, rows: str, stamp: str) -> None:
    plain.submit(java_home, RESOURCES.cores, RESOURCES.heap_mib, "first", rows, stamp)


def _first(stamp: Path, run: Callable[[], None]) -> pairs.Timed:
    def timed() -> float:
        stamp.unlink(missing_ok=True)
        started = time.time()
        run()
        return float(stamp.read_text()) - started

    return timed


if __name__ == "__main__":
    sys.exit(main())
