"""Logs as JSON lines on stderr; every line names the job, the attempt and the execution.

Bodies and parameters of messages are never logged.
"""

import json
import logging
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from traceback import StackSummary, extract_tb
from typing import Final

import longhaul
from longhaul.core.errors import causes_of
from longhaul.core.lease import AttemptId

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    def __init__(self, always: dict[str, object]) -> None:
        super().__init__()
        self.always = always

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(
                timespec="milliseconds"
            ),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **self.always,
            **{name: value for name, value in vars(record).items() if name not in _OWN},
        }
        if record.exc_info and record.exc_info[0] and record.exc_info[1]:
            # Without the message: it may quote the parameters or the data of the job.
            line["exception"] = record.exc_info[0].__name__
            line["stack"] = trace(record.exc_info[1])
        return json.dumps(line, default=str)


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Py4J logs each call that the JVM's end cuts off, and through the root logger at that.

    Such a call raises where it was made, and the attempt says why it failed.
    """
    if Path(record.pathname).parent.name != "py4j":
        return True
    error = record.exc_info[1] if record.exc_info else None
    is_cut_off = isinstance(error, OSError) or (
        error is not None
        # By its name: a job without Spark needs no Py4J.
        and any(each.__name__ == "Py4JNetworkError" for each in type(error).__mro__)
    )
    return record.levelno >= logging.WARNING and not is_cut_off


def fields(attempt: AttemptId) -> dict[str, object]:
    """What each line about an attempt names."""
    return {
        "job_id": attempt.key.partition("#")[2],
        "attempt": attempt.attempt,
        "execution": attempt.execution_name,
    }


def add_label(label: str) -> None:
    """Let each further line also have the job's label, which the row says."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, JsonFormatter):
            handler.formatter.always["label"] = label


def configure(**always: object) -> None:
    """Log everything through one JSON handler. Each line also has the fields `always`."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter(always))
    handler.addFilter(_is_worth_a_line)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    for chatty in ("botocore", "boto3", "s3transfer", "urllib3", "py4j"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    # PySpark's own handlers would print failing queries with their text, plan and values.
    for quoting in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(quoting).disabled = True


_LONGHAUL: Final = f"{Path(longhaul.__file__).parent}{os.sep}"
_CATALOGUE: Final = f"{_LONGHAUL}catalogue{os.sep}"
# What stands between our code and the job's, and between the job's and Spark.
_BETWEEN: Final = (
    "<frozen ",
    *(f"{os.sep}{name}{os.sep}" for name in ("py4j", "pyspark")),
    *(f"{os.sep}{name}.py" for name in ("contextlib", "runpy", "threading")),
)


def trace(error: BaseException) -> list[str]:
    """The error's frames, such as `flights.py:12 run`, the last call at the end.

    Where it was raised from other errors, theirs come first, each followed by its class. Frames of
    Longhaul and of PySpark are left out, unless there are no others. Messages are left out: they
    may quote the parameters or the data of the job.
    """
    chain = [*causes_of(error)][::-1]
    is_of_job = any(_is_of_job(frame.filename) for each in chain for frame in _frames(each))
    lines: list[str] = []
    for each in chain:
        shown = [
            f"{_brief(frame.filename)}:{frame.lineno} {frame.name}"
            for frame in _frames(each)
            if not is_of_job or _is_of_job(frame.filename)
        ]
        if shown and lines:
            lines[-1] += ", and then:"
        if shown and each is not error:
            shown.append(type(each).__name__)
        lines += shown
    return lines


def _frames(error: BaseException) -> StackSummary:
    return extract_tb(error.__traceback__)


def _is_of_job(file: str) -> bool:
    is_own = file.startswith(_LONGHAUL) and not file.startswith(_CATALOGUE)
    return not is_own and not any(each in file for each in _BETWEEN)


def _brief(file: str) -> str:
    """The file as an import would find it, such as `flights.py` or `pandas/core/frame.py`."""
    folders = [each for each in sys.path if each and file.startswith(f"{each}{os.sep}")]
    return file.removeprefix(f"{max(folders, key=len)}{os.sep}") if folders else file
