"""Puts a world under the product's code: its clients, its clock, its randomness, its threads. The product does not know."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from unittest.mock import patch

import boto3

import functions.wiring
import jobs.io.publisher
import longhaul.adapters.s3_publisher
import longhaul.dispatch
from tests.simulation.hosts import HostClock
from tests.simulation.threads import Threads, wait
from tests.simulation.world import World, rng_for_product


@contextmanager
def installed(world: World) -> Iterator[None]:
    """For as long as the world runs. One at a time in a process."""
    clock = HostClock(world.timeline)
    replacements = (
        (boto3, "client", world.sdk.client),
        (functions.wiring, "SystemClock", lambda: clock),
        (functions.wiring, "random", SimpleNamespace(Random=rng_for_product)),
        (functions.wiring, "runtime_settings", lambda: world.settings),
        # They are no part of what is proved, and go to stdout.
        (functions.wiring, "EmfMetrics", lambda _: SimpleNamespace(put=lambda *_, **__: None)),
        (longhaul.dispatch, "ThreadPoolExecutor", Threads),
        (longhaul.adapters.s3_publisher, "ThreadPoolExecutor", Threads),
        (jobs.io.publisher, "ThreadPoolExecutor", Threads),
        (jobs.io.publisher, "wait", wait),
    )
    disabled = logging.root.manager.disable
    with ExitStack() as stack:
        for module, name, replacement in replacements:
            stack.enter_context(patch.object(module, name, replacement))
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(disabled)
