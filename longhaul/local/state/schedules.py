"""Schedules that the API made; those of the template are made by each start.

A single start that was due meanwhile fires at the next start. What recurs goes on with its next
time, as the template's does.
"""
# ruff: noqa: ANN401 - moto's objects, which have no types worth naming

import pickle
import time
from typing import Any

from moto.scheduler.models import Schedule, ScheduleGroup, scheduler_backends

from longhaul.local.moto_repairs.patching import Patches
from longhaul.local.state.store import Store


def apply(patches: Patches, store: Store) -> None:
    stock_add = ScheduleGroup.add_schedule
    stock_update: Any = Schedule.update
    stock_delete = ScheduleGroup.delete_schedule

    def add_schedule(group: Any, schedule: Any) -> None:
        stock_add(group, schedule)
        _keep(store, schedule)

    def update(schedule: Any, *args: Any, **named: Any) -> None:
        stock_update(schedule, *args, **named)
        _keep(store, schedule)

    def delete_schedule(group: Any, name: str) -> None:
        stock_delete(group, name)
        if store.recording:
            with store.writing() as database:
                database.execute(
                    'DELETE FROM schedule WHERE "group" = ? AND name = ?', (group.name, name)
                )

    patches.replace(ScheduleGroup, "add_schedule", add_schedule)
    patches.replace(Schedule, "update", update)
    patches.replace(ScheduleGroup, "delete_schedule", delete_schedule)


def restore(store: Store, account: str, region: str) -> None:
    backend = scheduler_backends[account][region]
    for group, name, data in store.rows('SELECT "group", name, data FROM schedule'):
        if group not in backend.schedule_groups:
            backend.create_schedule_group(group, [])
        schedules = backend.schedule_groups[group].schedules
        if name in schedules:
            continue
        schedule: Any = Schedule.__new__(Schedule)
        schedule.__dict__.update(pickle.loads(data))  # noqa: S301 - of a folder of the user's own
        if not schedule.schedule_expression.startswith("at("):
            schedule.last_modified_date = time.time()
        schedules[name] = schedule


def _keep(store: Store, schedule: Any) -> None:
    if store.recording:
        data = pickle.dumps(dict(schedule.__dict__))
        with store.writing() as database:
            row = (schedule.group_name, schedule.name, data)
            database.execute("INSERT OR REPLACE INTO schedule VALUES (?, ?, ?)", row)
