"""Stock moto and the embedded AWS, each started once and emptied before each rule."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from botocore.config import Config
from moto.core.config import default_user_config
from moto.moto_api._internal.models import moto_api_backend

from longhaul.core.clients import SystemClock
from longhaul.local.cloud import EmbeddedAws
from longhaul.local.credentials import aws_client
from simulation.aws.service import REGION
from tests.contract.conftest import Aws
from tests.servers import moto_server, repaired

# Moto's own failures (status 500) are answers too.
ONE_TRY = Config(retries={"total_max_attempts": 1})


@contextmanager
def stock(folder: Path) -> Iterator[Callable[[], AbstractContextManager[Aws]]]:
    """Moto's own server, with its interpreter of state machines switched on."""
    del folder
    with moto_server() as endpoint, repaired() as patches:
        patches.replace_item(default_user_config, "stepfunctions", {"execute_state_machine": True})
        yield _served_at(endpoint)


@contextmanager
def embedded(folder: Path) -> Iterator[Callable[[], AbstractContextManager[Aws]]]:
    """The embedded AWS, whose tasks run in the folder."""
    with EmbeddedAws(work_dir=folder / "work", task_dir=folder) as running:
        yield _served_at(running.endpoint)


def _served_at(endpoint: str) -> Callable[[], AbstractContextManager[Aws]]:
    @contextmanager
    def engine() -> Iterator[Aws]:
        moto_api_backend.reset()
        yield Aws(
            lambda service: aws_client(service, endpoint=endpoint, region=REGION, config=ONE_TRY),
            SystemClock(),
        )
        moto_api_backend.reset()

    return engine
