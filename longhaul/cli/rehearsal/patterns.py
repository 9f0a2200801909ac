"""EventBridge's own word on the event patterns of the rules."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from longhaul.cli.rehearsal.answer import Answer, bad, good, unasked
from longhaul.cli.rehearsal.template import Template
from longhaul.cli.target import Target

TEST: Final = ("events:TestEventPattern",)


def tested(target: Target, template: Template) -> Iterator[Answer]:
    """Each pattern, by `TestEventPattern`: with an event for it, and with one that is not."""
    events = target.client("events")
    for name, pattern in template.patterns():
        event = _event(template, pattern)
        others = {**event, "source": "aws.elsewhere"}
        text = json.dumps(pattern)
        matches, other = (
            events.test_event_pattern(EventPattern=text, Event=json.dumps(each)).get("Result")
            for each in (event, others)
        )
        if matches is None or other is None:
            yield unasked(f"rule {name}", "EventBridge gave no result")
        elif matches and not other:
            yield good(f"rule {name}", "matches its event, and no other's")
        else:
            yield bad(
                f"rule {name}",
                "does not match its event" if not matches else "matches an event of another source",
                f"report it to Longhaul, with the event {json.dumps(event)}",
            )


def _event(template: Template, pattern: Mapping[str, Any]) -> dict[str, Any]:
    """An event that the pattern is meant to match."""
    return {
        "version": "0",
        "id": "00000000-0000-4000-8000-000000000000",
        "account": template.account,
        "time": "2026-01-01T00:00:00Z",
        "region": template.region,
        "resources": [],
        **_sample(pattern),
    }


def _sample(pattern: Any) -> Any:  # noqa: ANN401 - any part of a pattern
    match pattern:
        case dict():
            return {key: _sample(each) for key, each in pattern.items()}
        case [{"wildcard": str(text)}, *_]:
            return text.replace("*", "rehearsal")
        case [{"anything-but": [0]}, *_]:
            return 1
        case [str(text), *_]:
            return text
    raise NotImplementedError(f"an event for {pattern}")
