"""The event files of `events/`, which tests and docs share."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent / "events"


def event(function: str, case: str) -> dict[str, Any]:
    return json.loads((ROOT / function / f"{case}.json").read_text())


def cases(function: str) -> list[str]:
    return sorted(path.stem for path in (ROOT / function).glob("*.json"))
