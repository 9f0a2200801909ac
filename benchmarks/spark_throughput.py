"""Time of a whole job that moves bytes, beside plain PySpark and a plain copy.

Longhaul's side stages its input from the embedded S3, runs Spark, and uploads, commits and
publishes its output. The ideal is PySpark from local disk to local disk, with a copy of input and
output. The embedded S3 runs on the same cores, so its work counts against Longhaul.
"""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import ours, pairs, plain
from jobs.resources import Resources
from jobs.spark.jvm import cache_path

RESOURCES = Resources(cores=2, memory_mib=4096)
_MB = 1_000_000
_FILES = 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--json", action="store_true", help="one object on stdout, and nothing else"
    )
    parser.add_argument("--runs", type=int, default=5, help="rounds that count (default: 5)")
    parser.add_argument("--mb", type=int, default=500, help="size of the input (default: 500)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = folder / "rows"
        size = write_rows(rows, arguments.mb * _MB)
        java = plain.java_of_the_wheel(folder)
        with ours.tasks(folder, RESOURCES) as tasks:
            for file in sorted(rows.iterdir()):
                tasks.s3.upload_file(str(file), ours.BUCKET, f"rows/{file.name}")

            def run_ours() -> float:
                started = time.perf_counter()
                tasks.run("clean_rows", {"rows": f"s3://{ours.BUCKET}/rows/"})
                return time.perf_counter() - started

            def run_ideal() -> float:
                output, copied = folder / "output", folder / "copied"
                started = time.perf_counter()
                shutil.copytree(rows, copied / "in")
                plain.submit(
                    java,
                    RESOURCES.cores,
                    RESOURCES.heap_mib,
                    "clean",
                    str(copied / "in"),
                    str(output),
                )
                shutil.copytree(output, copied / "out")
                took = time.perf_counter() - started
                shutil.rmtree(output)
                shutil.rmtree(copied)
                return took

            label = "plain PySpark and an ideal copy"
            mine, theirs = pairs.take_turns(run_ours, {label: run_ideal}, arguments.runs)
    facts = {"input_mb": size // _MB, "aot_cache": cache_path().is_file()}
    measured = {label: pairs.ratios(mine, theirs[label])}
    pairs.show("time for a whole job, over the ideal's", measured, facts, as_json=arguments.json)
    return 0


def write_rows(folder: Path, size: int) -> int:
    """Write a few CSV files of about `size` bytes in all. Returns the exact size."""
    folder.mkdir()
    for number in range(_FILES):
        with (folder / f"{number}.csv").open("w") as opened:
            row = number
            while opened.tell() < size // _FILES:
                lines = (
                    f"{n},name-{n * 7919 % 1009},{n * 31 % 10007 / 7 - 100:.4f},"
                    f"2013-{n % 12 + 1:02}-{n % 28 + 1:02},note {n * 104729 % 999983} of the row\n"
                    for n in range(row, row + 10_000 * _FILES, _FILES)
                )
                opened.writelines(lines)
                row += 10_000 * _FILES
    return sum(file.stat().st_size for file in folder.iterdir())


if __name__ == "__main__":
    sys.exit(main())
