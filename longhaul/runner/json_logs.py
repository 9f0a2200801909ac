"""Logs as JSON lines on stderr; every line names the job, the attempt and the execution.

Bodies and parameters of messages are never logged.
"""

import json
import logging
from datetime import UTC, datetime
from pathlib import Path

from longhaul.core.lease import AttemptId
from longhaul.runner.traces import trace

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
