"""Decides which faults fire, place by place.

A site and a number identify each decision, so that a plan can name its fault.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from simulation.aws.platform.hosts import Host
from simulation.aws.platform.timeline import Timeline
from simulation.aws.service import Call
from simulation.worlds.faults import DENIALS, kinds_of
from simulation.worlds.plan import Fault, Plan
from simulation.worlds.randomness import unit
from simulation.worlds.swarm import Swarm

Site = tuple[str, int, str]
"""A place where a fault could fire: the site, the decision's number, the kinds joined by `|`."""


class Injector:
    """`fired`: the faults that fired, with their times. None fires once `is_calm`."""

    def __init__(self, plan: Plan, timeline: Timeline) -> None:
        self._plan = plan
        self._timeline = timeline
        self._planned = (
            None
            if plan.faults is None
            else {(each.site, each.n): each.kind for each in plan.faults}
        )
        self._counts: Counter[str] = Counter()
        self._outages: list[tuple[str, datetime]] = []
        self._doomed: list[tuple[str, str]] = []
        self._chosen = set(plan.mix.kinds)
        self._swarm = Swarm(plan.seed, plan.mix.swarm)
        self._on: dict[tuple[str, Sequence[str]], Sequence[str]] = {}  # menus without what is off
        self.fired: list[tuple[datetime, Fault]] = []
        self.is_calm = False
        self.trace: Callable[[str], None] | None = None
        self.note_sites: list[Site] | None = None  # when set, gets every place passed

    def begin_outage(self, service: str, seconds: float) -> None:
        self._outages.append((service, self._timeline.clock.now() + timedelta(seconds=seconds)))
        self.note(_outage(service))

    def doom(self, hosts: str, operation: str) -> None:
        """Let the next host of this kind die right after its first such call.

        Several die one after the other, in the order of these calls; also when all else is calm.
        """
        self._doomed.append((hosts, operation))

    def is_out(self, service: str) -> bool:
        """Whether an outage of that service lasts.

        `capacity`: there is no room for a task. `rights`: each is refused for want of a right; with
        `rights:STAGE` those of one stage, whose role cannot be passed or assumed.
        A function's name: its code fails at the start. `simulation.worlds.governed` has others.
        """
        now = self._timeline.clock.now()
        return not self.is_calm and any(
            each == service and now < until for each, until in self._outages
        )

    def lacks_right(self, stage: str) -> bool:
        """Whether no task of the stage may start: of all, or because its own role is refused."""
        return self.is_out("rights") or self.is_out(f"rights:{stage}")

    def _denial(self, host: Host, call: Call) -> str | None:
        """How a policy denies the call, to all or to the role of this host; None: it does not."""
        for what in DENIALS:
            service = f"{what}:{call.service}"
            if self.is_out(service) or self.is_out(f"{service}@{host.name.partition('@')[0]}"):
                return f"{what}/before/all"
        return None

    def cut_off(self, host: Host) -> None:
        """No call of this host is answered any more."""
        host.is_cut_off = True
        self.note(Fault(host.name, 0, "partition"))

    def of_call(self, host: Host, call: Call, chance: float) -> str | None:
        """The fault of a call, if any.

        The caller draws `chance`, in [0, 1), for every call, used or not, so that every replay
        makes the same draws.
        """
        host.calls += 1
        if self._doomed and _is_met(self._doomed[0], host, call):
            self._doomed.pop(0)
            self.note(Fault(host.name, host.calls, "crash/after"))
            return "crash/after"
        if host.is_cut_off:
            return "lost/before/all"
        if self.is_calm:
            return None
        if self.note_sites is not None:
            kinds = kinds_of(call, host.traits)
            self.note_sites.append((host.name, host.calls, "|".join(kinds)))
        if self._outages and self.is_out(call.service):
            return "unavailable/before/all"
        if self._outages and (denial := self._denial(host, call)):
            return denial
        if self._planned is not None:
            kind = self._planned.get((host.name, host.calls))
        else:
            rate = self._plan.mix.calls
            if chance >= rate:
                return None
            menu = self._menu("call", kinds_of(call, host.traits))
            kind = menu[int(chance / rate * len(menu))] if menu else None
        if kind is not None:
            self.note(Fault(host.name, host.calls, kind))
        return kind

    def of_event(self, site: str, menu: Sequence[str], rate: float) -> str | None:
        """The fault of an invocation, an event, a launch, or another place that is no call."""
        self._counts[site] += 1
        n = self._counts[site]
        if self.is_calm:
            return None
        if self.note_sites is not None:
            self.note_sites.append((site, n, "|".join(menu)))
        if self._planned is not None:
            kind = self._planned.get((site, n))
        else:
            menu = self._menu(site.partition(":")[0], menu)
            chance = unit(self._plan.seed, f"{site}#{n}")
            kind = menu[int(chance / rate * len(menu))] if menu and chance < rate else None
        if kind is not None:
            self.note(Fault(site, n, kind))
        return kind

    def fired_since(self, start: datetime) -> list[Fault]:
        """The faults that have fired since, and the outages that lasted then or began since."""
        lasted = [_outage(service) for service, until in self._outages if until >= start]
        return lasted + [fault for at, fault in self.fired if at >= start]

    def _menu(self, place: str, menu: Sequence[str]) -> Sequence[str]:
        """The kinds that this world has."""
        found = self._on.get((place, menu))
        if found is None:
            found = [each for each in menu if self._swarm.has(f"{place}/{each}")]
            if place == "call" and self._chosen:
                found = [each for each in menu if each in self._chosen]
            self._on[place, menu] = found
        return found

    def note(self, fault: Fault) -> None:
        """Note what has fired, or came about by itself, and delays what needs it."""
        if self.trace is not None:
            self.trace(f"  ! {fault.kind} at {fault.site}, decision {fault.n}")
        self.fired.append((self._timeline.clock.now(), fault))


def _outage(service: str) -> Fault:
    return Fault(f"outage:{service}", 0, "outage")


def _is_met(doom: tuple[str, str], host: Host, call: Call) -> bool:
    return host.name.startswith(doom[0]) and call.operation == doom[1]
