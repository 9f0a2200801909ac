"""Time of a whole job that moves bytes, beside plain PySpark and a plain copy.

Longhaul's side stages its input, runs Spark, and uploads, commits and publishes its output. The
ideal is PySpark from local disk to local disk, with a copy of input and output.

nginx serves the input if it is installed (`fast_s3.py`), and passes all else on to the embedded S3,
in this process. Both run on the same cores, so their work counts against Longhaul: `s3_cpu_s` is
their CPU time in a run of Longhaul.

Beside the times it gives the most memory that the processes of each side had (resident, in MiB):
Longhaul's runner and its JVM, and PySpark's and its JVM.
"""

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import psutil

from benchmarks import fast_s3, ours, pairs, plain
from longhaul.runner.resources import Resources
from longhaul.runner.spark.jvm import cache_path

RESOURCES = Resources(cores=2, memory_mib=4096)
_MB = 1_000_000
_LINES = 100  # at once, some 9 kB


def main() -> int:
    parser = pairs.parser(__doc__, 5)
    parser.add_argument("--mb", type=int, default=500, help="size of the input (default: 500)")
    parser.add_argument("--files", type=int, default=4, help="files of the input (default: 4)")
    arguments = parser.parse_args()
    peaks: dict[str, list[float]] = {"longhaul": [], "plain": []}
    s3_cpu: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = folder / "rows"
        size = write_rows(rows, arguments.mb * _MB, arguments.files)
        java = plain.java_of_the_wheel(folder)
        with ours.tasks(folder, RESOURCES) as started, served(started, rows, folder) as found_at:
            tasks, server_cpu_s = found_at

            def run_ours() -> float:
                started, used = time.perf_counter(), server_cpu_s()
                with most_memory(peaks["longhaul"]):
                    tasks.run("clean_rows", {"rows": f"s3://{ours.BUCKET}/rows/"})
                s3_cpu.append(server_cpu_s() - used)
                return time.perf_counter() - started

            def run_ideal() -> float:
                output, copied = folder / "output", folder / "copied"
                started = time.perf_counter()
                shutil.copytree(rows, copied / "in")
                with most_memory(peaks["plain"]):
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
    facts = {
        "input_mb": size // _MB,
        "files": arguments.files,
        "server": "nginx" if fast_s3.is_installed() else "moto",
        "aot_cache": cache_path().is_file(),
        "s3_cpu_s": round(statistics.median(s3_cpu), 1),
        "memory_mib": {side: round(max(found)) for side, found in peaks.items()},
    }
    measured = {label: pairs.ratios(mine, theirs[label])}
    pairs.show("time for a whole job, over the ideal's", measured, facts, as_json=arguments.json)
    return 0


def write_rows(folder: Path, size: int, files: int) -> int:
    """Write so many CSV files of about `size` bytes in all. Returns the exact size."""
    folder.mkdir()
    for number in range(files):
        with (folder / f"{number:05}.csv").open("w") as opened:
            row = number
            while opened.tell() < size // files:
                lines = (
                    f"{n},name-{n * 7919 % 1009},{n * 31 % 10007 / 7 - 100:.4f},"
                    f"2013-{n % 12 + 1:02}-{n % 28 + 1:02},note {n * 104729 % 999983} of the row\n"
                    for n in range(row, row + _LINES * files, files)
                )
                opened.writelines(lines)
                row += _LINES * files
    return sum(file.stat().st_size for file in folder.iterdir())


@contextmanager
def served(
    tasks: ours.TaskRunner, rows: Path, folder: Path, rate: int = 0
) -> Iterator[tuple[ours.TaskRunner, Callable[[], float]]]:
    """Serve the rows as the objects `rows/…`: tasks that find them, and the servers' CPU time.

    `rate` is that of each connection to nginx, in bytes a second; 0: as fast as it can.
    """
    if not fast_s3.is_installed():
        for file in sorted(rows.iterdir()):
            tasks.s3.upload_file(str(file), ours.BUCKET, f"rows/{file.name}")
        yield tasks, time.process_time
        return
    (folder / "nginx").mkdir()
    with fast_s3.serving(
        rows, folder / "nginx", ours.BUCKET, "rows", tasks.aws.endpoint, rate
    ) as fast:
        environment = {**tasks.environment, "AWS_ENDPOINT_URL_S3": fast.endpoint}
        yield (
            replace(tasks, environment=environment),
            lambda: time.process_time() + fast.cpu_s,
        )


@contextmanager
def most_memory(peaks: list[float]) -> Iterator[None]:
    """Append the most MiB that the children of this process had meanwhile."""
    ended, most = Event(), 0.0

    def watch() -> None:
        nonlocal most
        while not ended.wait(0.25):
            found = 0
            for child in psutil.Process().children(recursive=True):
                try:
                    found += child.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            most = max(most, found / 2**20)

    watcher = Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        peaks.append(most)


if __name__ == "__main__":
    sys.exit(main())
