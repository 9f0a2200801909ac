"""An ordinary PySpark script as a job. It runs unchanged, with our session and its own `sys.argv`.

Its arguments may name places:

{inputs.NAME}   the folder of an input
{output}        the output: a local folder, or on a cluster an `s3://` path
{output.NAME}   a folder below the output, as `job.write(df, NAME)` makes it
{outputs.NAME}  a further output of the request; `{outputs.NAME.DATASET}` is a folder below it
{folder.NAME}   a folder that outlives the attempt, as `job.folder(NAME)`: it is stored every five
                minutes, when the platform asks the task to stop, and when the script fails
{result}        a local file for JSON: what a module's `run` returns
{metrics}       a local file for a JSON object, by the names of metrics, as `job.metric` sets them
"""

import json
import logging
import re
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from longhaul.job import Params, PermanentJobError
from longhaul.outputs.manifest import MAIN
from longhaul.runner.failures import heeding_exits
from longhaul.runner.io.staged import local_path
from longhaul.runner.io.written import Dataset, Folder, S3Folder
from longhaul.runner.running_job import RunningJob

_SAVE_EVERY_S: Final = 300.0
_PLACE: Final = re.compile(r"\{(?:(inputs|outputs?|folder)(?:\.([^{}]*))?|(result|metrics))\}")
_MAX_REPORT_BYTES: Final = 1024 * 1024  # more is no result, but data

logger = logging.getLogger(__name__)

Places = dict[tuple[str, str], Folder]
"""The folders that become datasets, by their name and that of their output; "" is the main one."""


class ScriptParams(Params):
    argv: tuple[str, ...] = ()
    """`sys.argv` of the script, after its own name."""


def run_script(file: Path, job: RunningJob[ScriptParams]) -> None:
    """Run the script to its end and keep for publication what it wrote.

    Raises:
        PermanentJobError: an argument names what the request does not have, the script exits with
            65 (bad data), or an output goes to a table.
        ExitError: it exits with another code than 0.
        Exception: as the script raises it.
    """
    places: Places = {(MAIN, ""): job.folder_of(MAIN)}
    argv = [_filled(word, job, places) for word in job.params.argv]
    for _, output in places:
        job.require_prefix(output)
    with _keeping_folders(job), heeding_exits(), _as_main(file, argv):
        runpy.run_path(str(file), run_name="__main__")
    # Rows are not counted: they would have to be read once more.
    job.written.extend(
        Dataset(name, folder, output=output)
        for (name, output), folder in places.items()
        if _may_hold_files(folder)
    )
    _take_reports(job)


def _take_reports(job: RunningJob[ScriptParams]) -> None:
    """Read what the script says of its work. What is no JSON fails nothing: the work is done."""
    job.result = _json_in(job.reports / "result")
    metrics = _json_in(job.reports / "metrics")
    if metrics is not None and not isinstance(metrics, dict):
        logger.warning("{metrics} is not kept: it is no JSON object")
        return
    for name, value in (metrics or {}).items():
        try:
            job.metric(name, value)
        except PermanentJobError as error:
            logger.warning("%s", error)


def _json_in(file: Path) -> Any:  # noqa: ANN401 - JSON
    """What the file holds; None without a file. A file that is no JSON is a text."""
    if not file.is_file():
        return None
    with file.open(encoding="utf-8", errors="replace") as stream:
        text = stream.read(_MAX_REPORT_BYTES)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        logger.warning("{%s} is no JSON", file.name)
        return text


@contextmanager
def _keeping_folders(job: RunningJob[Any]) -> Iterator[None]:
    """Store the folders that the arguments name, again and again."""
    if "{folder." not in " ".join(job.params.argv):
        yield
        return

    def save() -> None:
        try:
            job.save()
        except Exception as error:  # noqa: BLE001 - the script goes on, and its own error counts
            # It may be writing: a file that goes away meanwhile is there at the next time.
            logger.warning(
                "the script's folders are not stored now", extra={"error": type(error).__name__}
            )
            job.remark(f"folders are not stored now: {error}")

    job.on_stop(lambda _: save())
    timer = job.every(_SAVE_EVERY_S, save)
    try:
        yield
    except Exception:
        save()
        raise
    finally:
        timer.cancel()


def _may_hold_files(folder: Folder) -> bool:
    """Whether the script wrote anything there; in S3 the listing of the output shows it."""
    return isinstance(folder, S3Folder) or any(path.is_file() for path in folder.rglob("*"))


def _filled(word: str, job: RunningJob[Any], places: Places) -> str:
    """The argument with paths in it. Adds the datasets that it names to `places`."""

    def path(match: re.Match[str]) -> str:
        kind, name = match[1], match[2]
        if match[3]:
            job.reports.mkdir(parents=True, exist_ok=True)
            return str(job.reports / match[3])
        if kind == "folder":
            if name is None:
                raise PermanentJobError("{folder} needs a name: {folder.NAME}")
            return str(job.folder(name))
        if kind == "inputs":
            if name not in job.staged:
                # Without its braces: the log leaves the values of parameters out.
                raise PermanentJobError(
                    f"{name or ''!r} is no input of the request; given:"
                    f" {', '.join(sorted(job.staged)) or 'none'}"
                )
            return local_path(job.path_of_input(name))
        output, dataset = "", MAIN if name is None else name
        if kind == "outputs":
            output, _, dataset = (name or "").partition(".")
            if output not in job.outputs:
                known = ", ".join(sorted(job.outputs)) or "none"
                raise PermanentJobError(
                    f"{output!r} is no further output of the request; given: {known}"
                )
            dataset = dataset or MAIN
        folder = places[dataset, output] = job.folder_of(dataset, output)
        if isinstance(folder, S3Folder):
            return folder.as_uri()
        # Spark wants to make the folder itself. A script that writes below it with `open` needs it.
        (folder if word[match.end() :].startswith("/") else folder.parent).mkdir(
            parents=True, exist_ok=True
        )
        return str(folder)

    try:
        return _PLACE.sub(path, word)
    except PermanentJobError as error:
        raise PermanentJobError(f"params.argv: {error}") from error


@contextmanager
def _as_main(file: Path, argv: Sequence[str]) -> Iterator[None]:
    """Replace `sys.argv`, and let `spark.stop()` do nothing: the runner still needs the session."""
    with (
        _replaced(sys, "argv", [str(file), *argv]),
        _replaced(SparkSession, "stop", _leave_running),
        _replaced(SparkContext, "stop", _leave_running),
    ):
        yield


@contextmanager
def _replaced(owner: object, name: str, value: object) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _leave_running(_: object) -> None:
    """Instead of `stop`."""
