"""What ECS tells a task about itself."""

import json
import os
import time
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final

from longhaul.runner.resources import Resources, resources
from longhaul.runner.stopping import Stop

METADATA_VARIABLE = "ECS_CONTAINER_METADATA_URI_V4"
# The agent may need some seconds before it knows a new task, and more on a busy machine.
_PATIENCE_S: Final = 60
_TIMEOUT_S: Final = 10
_PAUSE_S: Final = 0.5


@dataclass(frozen=True)
class Task:
    arn: str
    resources: Resources


def this_task(stop: Stop) -> Task:
    """This task, as the ECS metadata endpoint describes it.

    An endpoint that does not answer is asked again for a minute, or until the stop.

    Raises:
        RuntimeError: the process does not run under ECS.
        ConnectionError: the endpoint gave no description in that time.
    """
    endpoint = os.environ.get(METADATA_VARIABLE)
    if not endpoint:
        raise RuntimeError(
            f"{METADATA_VARIABLE} is not set: the runner is started by ECS (or by `longhaul up`)"
        )
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            metadata = _described(f"{endpoint}/task")
            break
        except (OSError, HTTPException, ValueError) as error:
            if stop.wait(_PAUSE_S) or time.monotonic() > until:
                raise ConnectionError(
                    "ECS's metadata endpoint does not describe the task"
                ) from error
    limits = metadata.get("Limits") or {}
    return Task(metadata["TaskARN"], resources(limits.get("CPU"), limits.get("Memory")))


def _described(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - the agent's own link-local http address
        metadata: dict[str, Any] = json.load(answer)
    return metadata
