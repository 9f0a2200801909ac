"""A rule with a schedule and no pattern gets no events.

AWS: a rule matches events by its pattern, or runs on its schedule. An event that is put to the bus
leaves a rule without a pattern alone. Source: "Rules in Amazon EventBridge" (EventBridge User
Guide).

Stock moto: a rule without a pattern gets every event that is put to its bus; where its target is a
function, as the sweeper's is, the call fails.
"""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

from typing import Any

from moto.events.models import Rule

from longhaul.local.moto_repairs.patching import Patches


def apply(patches: Patches) -> None:
    stock = Rule.send_to_targets

    def send_to_targets(rule: Any, *args: Any, **kwargs: Any) -> None:
        if rule.event_pattern.dump():
            stock(rule, *args, **kwargs)

    patches.replace(Rule, "send_to_targets", send_to_targets)
