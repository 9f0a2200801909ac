"""Checks parameters against the models of a project's jobs, without Spark: `longhaul submit` asks.

Reads an array of `[job, params]` from stdin. The last line on stdout is an array of as many
objects: `wrong` says what is wrong with the parameters, `unchecked` why they could not be checked.
"""

import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from pathlib import Path

from pydantic import JsonValue

from longhaul.job import PermanentJobError
from longhaul.runner.loading import WrongParamsError, find_job


def main() -> None:
    # A module may print while it is imported.
    with redirect_stdout(sys.stderr):
        found = [_looked(job, params) for job, params in json.load(sys.stdin)]
    sys.stdout.write(f"\n{json.dumps(found)}\n")


def _looked(job: str, params: Mapping[str, JsonValue]) -> dict[str, str]:
    try:
        find_job(job, _no_code).load(params, _pretend_session)
    except WrongParamsError as error:
        return {"wrong": str(error)}
    except PermanentJobError as error:
        return {"unchecked": str(error)}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - people's module; the task says it too
        return {"unchecked": f"{type(error).__name__}: {error}"}
    return {}


class _Anything:
    """In the place of the JVM: every function of it is there, and every type is a text."""

    def __getattr__(self, name: str) -> "_Anything":
        return self

    def __call__(self, *_: object) -> "_Anything":
        return self

    def json(self) -> str:
        return '"string"'


def _pretend_session() -> None:
    """Let a module make columns and UDFs while it is imported: nothing of it is run here."""
    from pyspark import SparkContext  # noqa: PLC0415 - a plain job needs none

    SparkContext._active_spark_context = _Anything()  # type: ignore[assignment]  # noqa: SLF001 - what PySpark asks for


def _no_code(path: str) -> Path:
    raise LookupError(f"{path} is not of the project")


if __name__ == "__main__":
    main()
