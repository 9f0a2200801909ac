"""Gives the product the simulation's clients, clock, randomness and threads."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import boto3
from aws_lambda_powertools import Logger

import longhaul.core.claim
import longhaul.core.logs
import longhaul.core.metrics
import longhaul.runner.emitting
import longhaul.saved.record
import longhaul.wiring
from longhaul.core.descent import MAX_GROUP
from longhaul.core.verdict import ExitCode
from longhaul.runner.attempt import AttemptRunner
from simulation.aws.platform import job_function
from simulation.aws.platform.hosts import HostBackground, HostClock
from simulation.worlds.randomness import rng_of
from simulation.worlds.world import World, rng_for_product

_QUIET = SimpleNamespace(
    thread_safe_get_current_keys=dict,
    thread_safe_append_keys=lambda **_: None,
    thread_safe_clear_keys=lambda: None,
)
_fail = AttemptRunner._fail  # noqa: SLF001 - see `installed`


@contextmanager
def installed(world: World) -> Iterator[None]:
    """For as long as the world runs. One world at a time in a process."""
    clock = HostClock(world.timeline)
    replacements: tuple[tuple[Any, str, Any], ...] = (
        (boto3, "client", world.sdk.client),
        (longhaul.wiring, "SystemClock", lambda: clock),
        (longhaul.wiring, "random", SimpleNamespace(Random=rng_for_product)),
        (longhaul.wiring, "runtime_settings", lambda: world.settings),
        (longhaul.wiring, "Threads", HostBackground),
        (longhaul.runner.emitting, "MAX_GROUP", world.plan.largest_group or MAX_GROUP),
        # An attempt records what its job raises. Mistakes of the code must be seen instead.
        (AttemptRunner, "_fail", _failed(world)),
        # Metrics go to stdout.
        (longhaul.core.metrics, "EmfMetrics", lambda _: _metrics(world)),
        # No line is written, so none needs the names of its job.
        (longhaul.core.logs, "logger", _QUIET),
        # What is caught and logged is seen all the same.
        (Logger, "exception", _logged(world)),
        (logging.Logger, "exception", _logged(world)),
    )
    if world.plan.kept_s:
        kept = timedelta(seconds=world.plan.kept_s)
        replacements += (
            (longhaul.core.claim, "KEPT_FOR_REDRIVE", kept),
            (longhaul.saved.record, "_REMOVED_AFTER", kept + timedelta(hours=1)),
        )
    if world.tiny is not None:
        replacements += job_function.replacements(clock.now)
    if world.plan.has_tables:
        # Imported by worlds that need it alone: pyiceberg takes a while.
        from simulation.aws.platform import iceberg  # noqa: PLC0415

        replacements += iceberg.replacements(rng_of(world.plan.seed, "uuids"))
    originals = [(module, name, getattr(module, name)) for module, name, _ in replacements]
    disabled = logging.root.manager.disable
    _set(replacements)
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(disabled)
        _set(originals)


def _logged(world: World) -> Callable[..., None]:
    def exception(*_: Any, **__: Any) -> None:
        error = sys.exc_info()[1]
        if error is not None:
            world.watch.code_failed(error)

    return exception


def _set(attributes: Iterable[tuple[Any, str, Any]]) -> None:
    for owner, name, value in attributes:
        setattr(owner, name, value)


def _failed(world: World) -> Callable[[AttemptRunner, Exception], ExitCode]:
    def fail(attempt: AttemptRunner, error: Exception) -> ExitCode:
        world.watch.code_failed(error)
        return _fail(attempt, error)

    return fail


def _metrics(world: World) -> SimpleNamespace:
    return SimpleNamespace(
        put=world.seen.note_metrics,
        put_of_job=lambda values, **_of: world.seen.check("measured", values),
    )
