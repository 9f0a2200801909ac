"""A rule sends to a queue that lets it.

AWS: EventBridge sends to a queue by its own name, and the queue's policy has to allow it. Source:
"Using resource-based policies for Amazon EventBridge" (EventBridge User Guide).

Stock moto: sends whatever the policy says.
"""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

from typing import Any

from moto.events.models import Rule

from longhaul.local.event_driver import Allows
from longhaul.local.moto_repairs.patching import Patches


def apply(patches: Patches, allows: Allows) -> None:
    """`allows`: whether EventBridge may do something for a rule."""
    stock = Rule._send_to_sqs_queue  # noqa: SLF001 - moto's insides

    def send(rule: Any, name: str, *args: Any, **kwargs: Any) -> None:
        queue = f"arn:aws:sqs:{rule.region_name}:{rule.account_id}:{name}"
        if allows("sqs:SendMessage", queue, rule.arn):
            stock(rule, name, *args, **kwargs)

    patches.replace(Rule, "_send_to_sqs_queue", send)
