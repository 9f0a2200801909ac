"""A PostgreSQL on loopback: Debian's package `postgresql`. Without it the tests are skipped."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pg8000.dbapi
import pytest

PASSWORD = "correct horse battery"  # noqa: S105 - of a server that lasts as long as the tests
_FOUND = [Path(each).resolve().parent for each in [shutil.which("initdb")] if each]
_PROGRAMS = [*_FOUND, *sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
# It refuses to run as root, which a container's tests do.
_USER: dict[str, Any] = {"user": "nobody"} if os.getuid() == 0 else {}


@pytest.fixture(scope="session")
def database() -> Iterator[dict[str, str]]:
    """The variables of the stage, for a server that asks for a password."""
    if not _PROGRAMS:
        pytest.skip("there is no PostgreSQL: apt-get install postgresql")
    programs = _PROGRAMS[0]
    # TMPDIR may be root's alone.
    folder = Path(tempfile.mkdtemp(prefix="postgres-", dir="/tmp" if _USER else None))  # noqa: S108
    password = folder / "password"
    password.write_text(PASSWORD)
    if _USER:
        for each in (folder, password):
            shutil.chown(each, _USER["user"])
    data, port = folder / "data", _free_port()
    _run(
        programs / "initdb", "-D", data, "-U", "reader", "--pwfile", password,
        "--auth=scram-sha-256", "--no-sync", "-E", "UTF8",
    )  # fmt: skip
    options = f"-k {folder} -c listen_addresses=127.0.0.1 -c port={port} -c fsync=off"
    control = (programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log")
    _run(*control, "-o", options, "start")
    try:
        yield {
            "DB_HOST": "127.0.0.1",
            "DB_PORT": str(port),
            "DB_NAME": "postgres",
            "DB_USER": "reader",
            "DB_PASSWORD": PASSWORD,
        }
    finally:
        _run(*control, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def connection(database: dict[str, str]) -> Iterator[Any]:
    found = pg8000.dbapi.connect(
        host=database["DB_HOST"],
        port=int(database["DB_PORT"]),
        database=database["DB_NAME"],
        user=database["DB_USER"],
        password=database["DB_PASSWORD"],
    )
    yield found
    found.close()


def _run(*command: object) -> None:
    done = subprocess.run(
        [*map(str, command)],
        cwd="/",
        # Not a pipe: the server keeps it open.
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        **_USER,
    )
    assert done.returncode == 0, command


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
