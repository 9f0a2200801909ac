"""Where an error came from, as the log of a task shows it: the lines of the job's own code."""

import os
import sys
from pathlib import Path
from traceback import StackSummary, extract_tb
from typing import Final

import longhaul
from longhaul.core.errors import causes_of

_OWN: Final = f"{Path(longhaul.__file__).parent}{os.sep}"
_CATALOGUE: Final = f"{_OWN}catalogue{os.sep}"
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
    is_own = file.startswith(_OWN) and not file.startswith(_CATALOGUE)
    return not is_own and not any(each in file for each in _BETWEEN)


def _brief(file: str) -> str:
    """The file as an import would find it, such as `flights.py` or `pandas/core/frame.py`."""
    folders = [each for each in sys.path if each and file.startswith(f"{each}{os.sep}")]
    return file.removeprefix(f"{max(folders, key=len)}{os.sep}") if folders else file
