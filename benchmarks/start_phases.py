"""Where the time of a start goes: the steps of the job of `spark_start.py`, one after the other.

Two of them run beside the others: the JVM boots, and then the session is made, in another thread.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks import ours, pairs, spark_start, stamps

_BESIDE = ("JVM answers", "session")
_FIRST = "first result"
_STEPS = (
    "python started",
    "JVM process started",
    "imports and clients",
    "registered",
    "staged",
    "job begins",
    _FIRST,
    "job ends",
    "published",
    "task ended",
)
_FROM = {"JVM answers": "JVM process started", "session": "JVM answers"}
_MEANS = {
    "python started": "process, Python, the runner's own imports",
    "JVM process started": "ask ECS for the task, start the JVM",
    "imports and clients": "import boto3, pydantic and PySpark; make clients",
    "registered": "register in the row",
    "staged": "read the request, load the job, stage the input",
    "job begins": "wait for the session",
    _FIRST: "the job's first query",
    "job ends": "the job's output",
    "published": "end the JVM; upload, commit, publish",
    "task ended": "end of the process",
    "JVM answers": "the JVM boots, until PySpark can connect",
    "session": "make the session",
}


def main() -> int:
    parser = pairs.parser(__doc__, 9)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "stamps"
        with ours.tasks(folder, spark_start.RESOURCES, {stamps.VARIABLE: str(file)}) as tasks:
            tasks.s3.put_object(Bucket=ours.BUCKET, Key="rows.csv", Body=spark_start.rows())
            runs = [_run(tasks, file, folder / "stamp") for _ in range(arguments.runs + 1)][1:]
    steps = (*_STEPS, *_BESIDE)
    seconds = {step: _median(_took(run, step) for run in runs) for step in steps}
    # The job itself writes down its first result, without the CPU time.
    cpu_s = {step: _median(run[step][1] for run in runs) for step in steps if step != _FIRST}
    first = _median(run[_FIRST][0] for run in runs)
    if arguments.json:
        facts = {"runs": len(runs), "first_result_s": first, "seconds": seconds, "cpu_s": cpu_s}
        sys.stdout.write(json.dumps(facts) + "\n")
        return 0
    sys.stdout.write(
        f"first result after {first:.2f} s, median of {len(runs)} runs\n"
        "seconds, their part of that, and the CPU seconds of runner and JVM until then:\n"
    )
    for step in steps:
        sys.stdout.write(
            f"  {seconds[step]:5.2f} {seconds[step] / first:4.0%} {cpu_s.get(step, ''):>5}"
            f"  {'beside it: ' if step in _BESIDE else ''}{_MEANS[step]}\n"
        )
    return 0


Run = dict[str, tuple[float, float]]
"""For each step, the seconds since the start, and the CPU seconds of runner and JVM until then."""


def _run(tasks: ours.TaskRunner, file: Path, first_result: Path) -> Run:
    file.unlink(missing_ok=True)
    started = time.time()
    tasks.run("first_result", {"rows": f"s3://{ours.BUCKET}/rows.csv"}, stamp=str(first_result))
    ended = time.time()
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    run = {step: (at - started, cpu_s) for step, at, cpu_s in lines}
    run[_FIRST] = (float(first_result.read_text()) - started, 0.0)
    run["task ended"] = (ended - started, run["published"][1])
    return run


def _median(values: Iterable[float]) -> float:
    return round(statistics.median(values), 2)


def _took(run: Run, step: str) -> float:
    """Seconds from the step before it."""
    before = _FROM.get(step) or ("", *_STEPS)[_STEPS.index(step)]
    return run[step][0] - (run[before][0] if before else 0)


if __name__ == "__main__":
    sys.exit(main())
