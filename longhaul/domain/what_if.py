"""The recorded jobs under other heartbeat settings, and on Spot. Pure.

Modelled: how often each attempt would have beaten, for as long as it ran. Not modelled: that a slower heartbeat finds a crash later and a job may so run
longer (`unseen_s` says by how much), and what Spot would have interrupted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from longhaul.domain import schedule
from longhaul.domain.cost import Cost, JobCost, Pricing
from longhaul.domain.usage import Usage
from longhaul.settings import LeaseSettings


@dataclass(frozen=True)
class Scenario:
    """`spot` None: as each attempt ran."""

    name: str
    numbers: LeaseSettings
    spot: bool | None = None


@dataclass(frozen=True)
class Outlook:
    """What a scenario comes to. `unseen_s`: for how long the crash of an attempt as old as the longest recorded one may go unseen, when its execution dies too."""

    scenario: Scenario
    beats: int
    cost: Cost
    unseen_s: int


def scenarios(numbers: LeaseSettings) -> tuple[Scenario, ...]:
    """The settings as they are, those of their neighbours that could be deployed, a heartbeat that does not grow, and Spot."""
    floor, ceiling, share = numbers.beat_floor_s, numbers.beat_ceiling_s, numbers.beat_fraction
    longer = min(2 * floor, 300)
    rarer, denser = min(2 * ceiling, 3600), max(floor, ceiling // 2)
    wider, closer = min(2 * share, 0.5), share / 2
    changes: dict[str, dict[str, float]] = {
        "as it is": {},
        f"waits of {closer:.0%} of the age": {"beat_fraction": closer},
        f"waits of {wider:.0%} of the age": {"beat_fraction": wider},
        f"waits of at least {longer} s": {"beat_floor_s": longer, "beat_ceiling_s": max(ceiling, longer)},
        f"waits of at most {denser} s": {"beat_ceiling_s": denser},
        f"waits of at most {rarer} s": {"beat_ceiling_s": rarer},
        f"waits of {floor} s, always": {"beat_ceiling_s": floor},
    }
    distinct: dict[LeaseSettings, Scenario] = {}
    for name, change in changes.items():
        changed = numbers.model_copy(update=change)
        distinct.setdefault(changed, Scenario(name, changed))
    spot = (Scenario("all on demand", numbers, spot=False), Scenario("all on Spot", numbers, spot=True))
    return (*distinct.values(), *spot)


def outlooks(jobs: Sequence[JobCost], pricing: Pricing) -> Iterator[Outlook]:
    """Each scenario for the same attempts. The first is the model of what was: other than the recorded cost it does not know of beats that failed."""
    longest = max((each.usage.task_s for job in jobs for each in job.attempts), default=0.0)
    for scenario in scenarios(pricing.settings.lease):
        used = [_under(scenario, each.usage) for job in jobs for each in job.attempts]
        cost = sum((pricing.cost(each) for each in used), Cost())
        wait = schedule.interval_s(longest, scenario.numbers)
        yield Outlook(
            scenario, sum(each.beats for each in used), cost, schedule.visibility_s(wait, 0, scenario.numbers)
        )


def beats_within(seconds: float, numbers: LeaseSettings) -> int:
    """How often an attempt that lives so long beats."""
    age, count = float(schedule.interval_s(0, numbers)), 0
    while age < seconds:
        count += 1
        age += schedule.interval_s(age, numbers)
    return count


def _under(scenario: Scenario, used: Usage) -> Usage:
    spot = used.spot if scenario.spot is None else scenario.spot
    return replace(used, beats=beats_within(used.task_s, scenario.numbers), spot=spot)
