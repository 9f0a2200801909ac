"""What is small, and so written as a whole: the catalog of Glue, schedules, secrets, parameters.

Of schedules those that the API made; those of the template are made by each start. A single start
that was due meanwhile fires at the next start. What recurs goes on with its next time, as the
template's does.
"""
# ruff: noqa: ANN401, SLF001 - moto's insides, which have no types worth naming

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from moto.glue.models import glue_backends
from moto.glue.responses import GlueResponse
from moto.scheduler.models import EventBridgeSchedulerBackend, scheduler_backends
from moto.scheduler.responses import EventBridgeSchedulerResponse
from moto.secretsmanager.models import secretsmanager_backends
from moto.secretsmanager.responses import SecretsManagerResponse
from moto.ssm.models import ssm_backends
from moto.ssm.responses import SimpleSystemManagerResponse

from longhaul.local.moto_repairs.patching import Patches
from longhaul.local.moto_repairs.scheduler_schedules import TemplateSchedule
from longhaul.local.state.store import Store

_KIND: Final = "whole"


def _schedules(account: str, region: str) -> list[Any]:
    groups = scheduler_backends[account][region].schedule_groups
    every = [each for group in groups.values() for each in group.schedules.values()]
    return [each for each in every if not isinstance(each, TemplateSchedule)]


_WHOLE: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "databases": lambda account, region: dict(glue_backends[account][region].databases),
    "schedules": _schedules,
    # This dictionary's own look-ups take parts of an ARN.
    "secrets": lambda account, region: dict(
        dict.items(secretsmanager_backends[account][region].secrets)
    ),
    "parameters": lambda account, region: dict(ssm_backends[account][region]._parameters),
}
# After what each is written. Of a request that only reads nothing has changed.
_AFTER: Final = (
    (GlueResponse, "call_action", "databases"),
    (EventBridgeSchedulerResponse, "call_action", "schedules"),
    (EventBridgeSchedulerBackend, "delete_schedule", "schedules"),
    (SecretsManagerResponse, "call_action", "secrets"),
    (SimpleSystemManagerResponse, "call_action", "parameters"),
)


def apply(patches: Patches, store: Store, account: str, region: str) -> None:
    """Apply after the repairs."""

    def keeping(stock: Any, name: str) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            try:
                return stock(*args, **named)
            finally:  # also after an error: a batch may be done in part
                if store.recording:
                    with store.lock:
                        store.put(_KIND, {name: _WHOLE[name](account, region)})

        return call

    for owner, function, name in _AFTER:
        patches.replace(owner, function, keeping(getattr(owner, function), name))


def restore(store: Store, account: str, region: str) -> None:
    kept = dict(store.things(_KIND))
    databases = glue_backends[account][region].databases
    for name, database in kept.get("databases", {}).items():
        databases.setdefault(name, database).tables = database.tables
    groups = scheduler_backends[account][region].schedule_groups
    for schedule in kept.get("schedules", []):
        if not schedule.schedule_expression.startswith("at("):
            schedule.last_modified_date = time.time()
        if schedule.group_name not in groups:
            scheduler_backends[account][region].create_schedule_group(schedule.group_name, [])
        groups[schedule.group_name].schedules.setdefault(schedule.name, schedule)
    for name, secret in kept.get("secrets", {}).items():
        secretsmanager_backends[account][region].secrets[name] = secret
    for name, versions in kept.get("parameters", {}).items():
        ssm_backends[account][region]._parameters.setdefault(name, versions)
