"""Plans out of seeds."""

from tests.simulation.plan import Act, Job, Plan


def plan_of(seed: int) -> Plan:
    return Plan(seed, jobs=(Job("j0"),), acts=(Act(1.0, "submit", "j0"),))
