"""A world as data: who submits what and when, how each attempt goes, what operators do, and which faults come where. The same plan always makes the same world.

A generated plan leaves the faults to its `mix`, and the world notes those that it met. A plan that is to be shrunk or replayed names each fault by its place instead
(`faults`), so that leaving one out moves none of the others.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import ConfigDict, TypeAdapter

_STRICT = ConfigDict(extra="forbid")
"""Of every part: what a plan on a command line says must mean something."""


@dataclass(frozen=True)
class Ending:
    """How one attempt goes; `kind` is one of `endings.KINDS`. `after_s`: seconds of work before it happens."""

    __pydantic_config__ = _STRICT

    kind: str = "done"
    after_s: float = 0.0


@dataclass(frozen=True)
class Job:
    """`endings` are those of its attempts, in order; later attempts do well, unless the job is `poison`: then they go as the last. Only work 0 is so."""

    __pydantic_config__ = _STRICT

    name: str
    work_s: float = 30.0
    named: bool = True  # whether its request has a job_id
    endings: tuple[Ending, ...] = ()
    poison: bool = False
    output: str = ""  # a prefix shared with other jobs; else one of its own
    mode: str = "overwrite"  # or "append"
    timeout_s: int | None = None
    stall_timeout_s: int | None = None
    max_attempts: int | None = None
    files: int = 2
    fan_out: int | None = (
        None  # how many jobs it emits; None: it leaves that to its stage, in which one follows. In a pipeline, see `stages`
    )

    def ending(self, attempt: int, work: int) -> Ending:
        if work or not self.endings:
            return Ending()
        if attempt <= len(self.endings):
            return self.endings[attempt - 1]
        return self.endings[-1] if self.poison else Ending()


@dataclass(frozen=True)
class Act:
    """Something that people do, or that SQS does, at a time: one of `acts.KINDS`. `work` tells requests under one key apart."""

    __pydantic_config__ = _STRICT

    at_s: float
    kind: str
    job: str = ""
    work: int = 0
    for_s: float = 0.0  # how long an outage lasts
    service: str = ""


@dataclass(frozen=True)
class Fault:
    """What happens at the `n`th decision of a site; a site is a call's place, an event's way, an invocation."""

    __pydantic_config__ = _STRICT

    site: str
    n: int
    kind: str


@dataclass(frozen=True)
class Mix:
    """How often what goes wrong, as probabilities; and how the open questions of AWS are answered in this world."""

    __pydantic_config__ = _STRICT

    calls: float = 0.0
    kinds: tuple[str, ...] = ()  # of faults of calls; none named: all
    invokes: float = 0.0
    events: float = 0.0
    launches: float = 0.0
    skew_s: float = 0.0
    stale_handles: str = "fail"
    index_lag_s: float = 0.0
    reorder: bool = False
    timeout_stops_task: bool = True
    short_pages: bool = False  # answers come in many small pages


@dataclass(frozen=True)
class Plan:
    __pydantic_config__ = _STRICT

    seed: int = 0
    jobs: tuple[Job, ...] = ()
    acts: tuple[Act, ...] = ()
    mix: Mix = field(default_factory=Mix)
    faults: tuple[Fault, ...] | None = None  # None: drawn by the mix
    slots: int = 10
    clean_slots: int = 0  # of the stage behind `main`; 0: there is none, and no pipeline
    spot: bool = False
    max_attempts: int = 3
    renew_receives: int = 900
    slot_wait_s: int = 50

    def to_json(self) -> str:
        return json.dumps(_brief(asdict(self), asdict(Plan())), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """A plan as `to_json` writes it.

        Raises:
            pydantic.ValidationError: it is none.
        """
        return TypeAdapter(cls).validate_json(text)


_USUAL: dict[str, dict[str, Any]] = {
    "jobs": asdict(Job("")),
    "acts": asdict(Act(0, "")),
    "endings": asdict(Ending()),
    "faults": {},
}


def _brief(document: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    """Without what is as usual, so that a plan fits on a command line."""
    brief: dict[str, Any] = {}
    for name, value in document.items():
        if name in usual and value == usual[name] and name != "kind":
            continue
        if isinstance(value, dict):
            brief[name] = _brief(value, usual.get(name, {}))
        elif name in _USUAL and value is not None:
            brief[name] = [_brief(each, _USUAL[name]) for each in value]
        else:
            brief[name] = value
    return brief
