"""What goes wrong, decided place by place. A decision is known by its site and its number there, so that a plan can name it."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from tests.fakes.service import Call
from tests.simulation.call_faults import kinds_of
from tests.simulation.hosts import Host
from tests.simulation.plan import Fault, Plan
from tests.simulation.randomness import unit
from tests.simulation.timeline import Timeline

Site = tuple[str, int, str]
"""A place where a fault could come: the site, the number of the decision there, and the menu, joined by `|`."""


class Injector:
    """`fired`: the faults that came, with their times. After `calm()` there are no more."""

    def __init__(self, plan: Plan, timeline: Timeline) -> None:
        self._plan = plan
        self._timeline = timeline
        self._planned = None if plan.faults is None else {(each.site, each.n): each.kind for each in plan.faults}
        self._counts: Counter[str] = Counter()
        self._outages: list[tuple[str, datetime]] = []
        self._chosen = set(plan.mix.kinds)
        self.fired: list[tuple[datetime, Fault]] = []
        self.is_calm = False
        self.trace: Callable[[str], None] | None = None
        self.note_sites: list[Site] | None = None  # set to a list: every place where a fault could come

    def calm(self) -> None:
        self.is_calm = True

    def begin_outage(self, service: str, seconds: float) -> None:
        self._outages.append((service, self._timeline.clock.now() + timedelta(seconds=seconds)))
        self._note(Fault(f"outage:{service}", 0, "outage"))

    def of_call(self, host: Host, call: Call, chance: float) -> str | None:
        """What happens to a call. `chance`, in [0, 1), is drawn by the caller, whether or not it is used: the same draws in every replay."""
        host.calls += 1
        if self.is_calm:
            return None
        if self.note_sites is not None:
            kinds = kinds_of(call, host.traits)
            self.note_sites.append((host.name, host.calls, "|".join(kinds)))
        if self._outages and self._is_out(call.service):
            return "unavailable/before/all"
        if self._planned is not None:
            kind = self._planned.get((host.name, host.calls))
        else:
            rate = self._plan.mix.calls
            if chance >= rate:
                return None
            menu = kinds_of(call, host.traits)
            menu = [each for each in menu if each in self._chosen] if self._chosen else menu
            kind = menu[int(chance / rate * len(menu))] if menu else None
        if kind is not None:
            self._note(Fault(host.name, host.calls, kind))
        return kind

    def of_event(self, site: str, menu: Sequence[str], rate: float) -> str | None:
        """What happens at a place that is no call: an invocation, an event on its way, a launch."""
        self._counts[site] += 1
        n = self._counts[site]
        if self.is_calm:
            return None
        if self.note_sites is not None:
            self.note_sites.append((site, n, "|".join(menu)))
        if self._planned is not None:
            kind = self._planned.get((site, n))
        else:
            chance = unit(self._plan.seed, f"{site}#{n}")
            kind = menu[int(chance / rate * len(menu))] if chance < rate else None
        if kind is not None:
            self._note(Fault(site, n, kind))
        return kind

    def fired_since(self, start: datetime) -> list[Fault]:
        return [fault for at, fault in self.fired if at >= start]

    def _is_out(self, service: str) -> bool:
        now = self._timeline.clock.now()
        return any(each == service and now < until for each, until in self._outages)

    def _note(self, fault: Fault) -> None:
        if self.trace is not None:
            self.trace(f"  ! {fault.kind} at {fault.site}, decision {fault.n}")
        self.fired.append((self._timeline.clock.now(), fault))
