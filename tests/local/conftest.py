"""Stock moto, moto with single repairs, and the whole embedded AWS."""

import json
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from moto.moto_api._internal.models import moto_api_backend

from longhaul.local.cloud import EmbeddedAws
from longhaul.local.credentials import aws_client
from tests.local.support import REGION, ROLE, Moto, eventually
from tests.servers import moto_server
from tests.servers import repaired as repaired_moto


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A thread of stock moto may break off with any error, at a time that differs from run to run.
    ignored = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if params.get("repaired") is False:
            item.add_marker(ignored)


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    threads, children = set(threading.enumerate()), set(psutil.Process().children())
    yield
    eventually(
        lambda: set(psutil.Process().children()) <= children and _lasting_threads() <= threads,
        "only the threads and processes that ran before: "
        f"{[t.name for t in _lasting_threads() - threads]}, {psutil.Process().children()}",
        10,
    )


def _lasting_threads() -> set[threading.Thread]:
    # A thread serves a connection until its client closes it. The clients of a test are gone soon.
    return {
        thread for thread in threading.enumerate() if "process_request_thread" not in thread.name
    }


@pytest.fixture(scope="session")
def _moto_endpoint() -> Iterator[str]:
    with moto_server() as endpoint:
        yield endpoint


@pytest.fixture
def moto(_moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Moto]:
    """Stock moto, to which a test can apply repairs. Its end restores stock moto, without state."""
    # Stock moto's interpreter reads its server's port from the environment.
    monkeypatch.setenv("MOTO_PORT", _moto_endpoint.rsplit(":", 1)[-1])
    moto_api_backend.reset()  # other tests of this process use it too
    with repaired_moto() as patches:
        yield Moto(_moto_endpoint, patches)
    moto_api_backend.reset()


@pytest.fixture(params=[False, True], ids=["stock", "repaired"])
def repaired(request: pytest.FixtureRequest, moto: Moto) -> bool:
    """Runs a test twice: stock moto must differ from AWS, and repaired moto must not.

    Repaired moto has the repairs that the test's mark `mends` names.
    """
    if request.param:
        for mark in request.node.iter_markers("mends"):
            moto.apply(*mark.args)
    return bool(request.param)


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[EmbeddedAws]:
    with EmbeddedAws(work_dir=tmp_path / "work", task_dir=tmp_path) as running:
        yield running


@pytest.fixture
def client(aws: EmbeddedAws) -> Callable[[str], Any]:
    return lambda service: aws_client(service, endpoint=aws.endpoint, region=REGION)


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """A folder for what functions hear of."""
    folder = tmp_path / "events"
    folder.mkdir()
    return folder


@pytest.fixture
def assembly(tmp_path: Path) -> Callable[..., Path]:
    """Writes a small cloud assembly with one stack, `Tiny`.

    In `assembly(resources, code, outputs)`, `code` is the module `app` of the asset `code.zip`.
    """

    def write(
        resources: dict[str, Any], code: str = "", outputs: dict[str, Any] | None = None
    ) -> Path:
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
                "here": {
                    "bucketName": "assets-${AWS::AccountId}-${AWS::Region}",
                    "objectKey": "code.zip",
                }
            },
        }
        images = {"image": {"source": {"directory": "nowhere"}, "destinations": {}}}
        (out / "Tiny.assets.json").write_text(
            json.dumps({"files": {"code": asset}, "dockerImages": images})
        )
        return out

    return write
