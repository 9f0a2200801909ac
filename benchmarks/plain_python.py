"""Jobs without Spark, beside the same with it: the start on `tiny`, and large files.

The start is from the claim to the first line of the job's code, in a warm environment of Lambda's
handler. The large files are those of the
demo's `wav_previews` and `wav_previews_plain`, each as a task.
"""

import io
import os
import sys
import tempfile
import time
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks import ours, pairs
from longhaul.core.settings import VARIABLE
from longhaul.engines.aws_lambda.runner import ExecutionEnvironment, adopt_orphans
from longhaul.local.credentials import FAKE_KEY
from longhaul.runner.job_file import JOBS_VARIABLE
from longhaul.runner.resources import Resources

_RESOURCES: Final = Resources(cores=2, memory_mib=3008)
_ROOT: Final = Path(__file__).parents[1]
_OURS: Final = Path(__file__).with_name("catalogue")
_DEMO: Final = _ROOT / "examples" / "demo" / "jobs"
_RATE: Final = 48_000
_MIB: Final = 1024 * 1024


class _Context:
    aws_request_id = "request"
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:jobs"
    memory_limit_in_mb = str(_RESOURCES.memory_mib)

    def get_remaining_time_in_millis(self) -> int:
        return 900_000


def main() -> int:
    parser = pairs.parser(__doc__, 5)
    parser.add_argument("--files", type=int, default=8, help="audio files (default: %(default)s)")
    parser.add_argument("--mb", type=int, default=64, help="MiB of each (default: %(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jobs = {JOBS_VARIABLE: str(_DEMO), "PYTHONPATH": f"{_ROOT}:{_DEMO}"}
        with ours.tasks(folder, _RESOURCES, jobs) as tasks:
            for n in range(arguments.files):
                body = _audio(arguments.mb * _MIB, n)
                tasks.s3.put_object(Bucket=ours.BUCKET, Key=f"calls/{n}.wav", Body=body)
            measured = {
                "to the first line on tiny": _starts(tasks, folder, arguments.runs),
                "large files": _large_files(tasks, arguments.runs),
            }
    facts = {"files": arguments.files, "mib_of_each": arguments.mb}
    pairs.show("plain Python's time, over Spark's", measured, facts, as_json=arguments.json)
    return 0


def _starts(tasks: ours.TaskRunner, folder: Path, runs: int) -> dict[str, object]:
    environment = ExecutionEnvironment()
    adopt_orphans()
    sys.path.append(str(_OURS))  # as the image's PYTHONPATH has it
    stamp = folder / "stamp"

    def timed(job: str) -> float:
        # Each has a folder of its own, and ends what it finds there.
        own = folder / job
        own.mkdir(exist_ok=True)
        with _as_function(tasks, own):
            body = {
                "job": job,
                "inputs": {},
                "output": ours.new_output(),
                "params": {"stamp": str(stamp)},
            }
            attempt = tasks.claim(body)
            names = {name.removeprefix("LONGHAUL_").lower(): each for name, each in attempt.items()}
            started = time.time()
            environment.run({**names, "stage": "main", "job": job}, _Context())
            return float(stamp.read_text()) - started

    mine, others = pairs.take_turns(
        lambda: timed("first_line"), {"spark": lambda: timed("first_line_spark")}, runs
    )
    return pairs.ratios(mine, others["spark"])


@contextmanager
def _as_function(tasks: ours.TaskRunner, folder: Path) -> Iterator[None]:
    """With the variables of a function."""
    before = dict(os.environ)
    os.environ |= {
        "TMPDIR": str(folder),
        VARIABLE: ours.SETTINGS.model_dump_json(),
        JOBS_VARIABLE: str(_OURS),
        "PYTHONPATH": f"{_ROOT}:{_OURS}",
        "AWS_ENDPOINT_URL": tasks.aws.endpoint,
        "AWS_REGION": tasks.aws.region,
        "AWS_DEFAULT_REGION": tasks.aws.region,
        "AWS_ACCESS_KEY_ID": FAKE_KEY,
        "AWS_SECRET_ACCESS_KEY": FAKE_KEY,
    }
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before


def _large_files(tasks: ours.TaskRunner, runs: int) -> dict[str, object]:
    def timed(job: str) -> float:
        started = time.monotonic()
        tasks.run(job, {"audio": f"s3://{ours.BUCKET}/calls/"})
        return time.monotonic() - started

    mine, others = pairs.take_turns(
        lambda: timed("wav_previews_plain"), {"spark": lambda: timed("wav_previews")}, runs
    )
    return pairs.ratios(mine, others["spark"])


def _audio(size: int, seed: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as audio:
        audio.setnchannels(1)
        audio.setsampwidth(2)
        audio.setframerate(_RATE)
        audio.writeframes(bytes((n * 7 + seed) % 256 for n in range(4096)) * (size // 4096))
    return file.getvalue()


if __name__ == "__main__":
    sys.exit(main())
