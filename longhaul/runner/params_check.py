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
        find_job(job, _no_code).load(params, lambda: None)
    except WrongParamsError as error:
        return {"wrong": str(error)}
    except PermanentJobError as error:
        return {"unchecked": str(error)}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - people's module; the task says it too
        return {"unchecked": f"{type(error).__name__}: {error}"}
    return {}


def _no_code(path: str) -> Path:
    raise LookupError(f"{path} is not of the project")


if __name__ == "__main__":
    main()
