"""A stock moto, a moto with single repairs, and the whole embedded AWS."""

import json
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from moto.moto_api._internal.models import moto_api_backend
from moto.server import ThreadedMotoServer

from local.cloud import EmbeddedAws
from local.credentials import aws_client
from local.moto_repairs.patching import Patches
from tests.local.support import REGION, ROLE, Moto, eventually


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    threads, children = set(threading.enumerate()), set(psutil.Process().children(recursive=True))
    yield
    eventually(
        lambda: set(psutil.Process().children(recursive=True)) <= children and _lasting_threads() <= threads,
        f"only what ran before: {[thread.name for thread in _lasting_threads() - threads]}, {psutil.Process().children()}",
        10,
    )


def _lasting_threads() -> set[threading.Thread]:
    # A connection that a client keeps open is served until the client goes; the clients of a test go with it.
    return {thread for thread in threading.enumerate() if "process_request_thread" not in thread.name}


@pytest.fixture(scope="session")
def _moto_endpoint() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def moto(_moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Moto]:
    """Stock moto, until a test applies a repair; afterwards stock and empty again."""
    # Stock moto's interpreter asks the environment where its server is.
    monkeypatch.setenv("MOTO_PORT", _moto_endpoint.rsplit(":", 1)[-1])
    patches = Patches()
    moto_api_backend.reset()  # other tests of this process use it too
    yield Moto(_moto_endpoint, patches)
    patches.undo()
    moto_api_backend.reset()


@pytest.fixture(params=[False, True], ids=["stock", "repaired"])
def repaired(request: pytest.FixtureRequest) -> bool:
    """Each repair is tested twice: stock moto must still need it, and with it moto must do as AWS does."""
    return bool(request.param)


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[EmbeddedAws]:
    with EmbeddedAws(work_dir=tmp_path / "work", task_dir=tmp_path) as running:
        yield running


@pytest.fixture
def client(aws: EmbeddedAws) -> Callable[[str], Any]:
    return lambda service: aws_client(service, endpoint=aws.endpoint, region=REGION)


@pytest.fixture
def assembly(tmp_path: Path) -> Callable[..., Path]:
    """Writes a tiny cloud assembly: `assembly(resources, code="…")`; `code` becomes the asset `code.zip`, with its handlers in module `app`."""

    def write(resources: dict[str, Any], code: str = "", outputs: dict[str, Any] | None = None) -> Path:
        out = tmp_path / "assembly"
        (out / "asset.code").mkdir(parents=True)
        (out / "asset.code" / "app.py").write_text(textwrap.dedent(code))
        template = {
            "Resources": {"Role": ROLE, **resources},
            "Outputs": {name: {"Value": value} for name, value in (outputs or {}).items()},
        }
        (out / "Tiny.template.json").write_text(json.dumps(template))
        asset = {
            "source": {"path": "asset.code", "packaging": "zip"},
            "destinations": {
                "here": {"bucketName": "assets-${AWS::AccountId}-${AWS::Region}", "objectKey": "code.zip"}
            },
        }
        images = {"image": {"source": {"directory": "nowhere"}, "destinations": {}}}
        (out / "Tiny.assets.json").write_text(json.dumps({"files": {"code": asset}, "dockerImages": images}))
        return out

    return write
