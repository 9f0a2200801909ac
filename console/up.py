"""`longhaul up`: the embedded AWS with the stack deployed, in the foreground."""

import errno
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from types import FrameType

import psutil
from rich.console import Console

from local.cloud import EmbeddedAws
from local.credentials import aws_client
from local.http_services import LOOPBACK
from local.running import announce, withdraw
from local.spark_cache import BackgroundTraining
from local.synth import synth
from local.work_dir import occupied
from longhaul.settings import VARIABLE, RuntimeSettings

STACK = "Longhaul"
SAM_ENVIRONMENT = "sam-env.json"
"""In the work dir: for `sam local invoke --env-vars`."""


class AddressError(RuntimeError):
    """It is not to be listened on: taken, not of this machine, or open to others."""


def serve(stderr: Console, *, host: str, port: int, work_dir: Path) -> None:
    """Serve until SIGINT or SIGTERM; one JSON line on stdout says when it is ready.

    Raises:
        AddressError: before anything is synthesized.
        WorkDirError: likewise.
        KeyboardInterrupt: a signal came before there was anything to stop.
    """
    check_address(host, port)
    _at_signals(signal.default_int_handler)
    with occupied(work_dir), BackgroundTraining():
        stderr.print("synthesizing the stack …")
        assembly = synth(work_dir / "cdk.out")
        stopping = Event()
        _at_signals(lambda *_: stopping.set())
        with EmbeddedAws(port=port, work_dir=work_dir, host=host) as aws:
            outputs = _deploy(aws, assembly)
            # Before the line: who reads that may rely on being found.
            announce(aws.work_dir, endpoint=aws.endpoint, region=aws.region, stack=STACK)
            try:
                _say_ready(stderr, aws, outputs)
                stopping.wait()
            finally:
                withdraw(aws.work_dir)
            stderr.print("stopping …")


def _at_signals(handler: Callable[[int, FrameType | None], object]) -> None:
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, handler)


def _deploy(aws: EmbeddedAws, assembly: Path) -> dict[str, str]:
    """The stack, and what is there beside it in an account; answers the stack's outputs."""
    outputs = aws.deploy(assembly, STACK)
    settings = deployed_settings(aws)
    make_buckets(aws, settings)
    write_sam_environment(aws, settings)
    return outputs


def _say_ready(stderr: Console, aws: EmbeddedAws, outputs: dict[str, str]) -> None:
    sys.stdout.write(json.dumps({"endpoint": aws.endpoint, "region": aws.region, "outputs": outputs}) + "\n")
    sys.stdout.flush()
    stderr.print(f"ready: AWS_ENDPOINT_URL={aws.endpoint}, logs under {aws.work_dir}; Ctrl-C ends it", soft_wrap=True)


def check_address(host: str, port: int) -> None:
    """Say what is wrong now: synthesizing takes many seconds, and serving would only fail after them.

    Raises:
        AddressError: the address cannot, or must not, be listened on.
    """
    # No credentials are checked, and a task is a command on this machine: only itself and its containers may reach this.
    if host not in (allowed := _own_addresses()):
        raise AddressError(
            f"--host {host}: only this machine and its containers may reach it; here that is {' or '.join(allowed)}"
        )
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        way_out = "; `--port 0` picks a free one" if error.errno == errno.EADDRINUSE else ""
        raise AddressError(
            f"cannot listen on port {port} of {host} ({os.strerror(error.errno or 0)}){way_out}"
        ) from error


def _own_addresses() -> list[str]:
    """Loopback, and this machine's addresses on Docker's bridges, which nobody outside it can route to."""
    bridges = [
        addresses for name, addresses in sorted(psutil.net_if_addrs().items()) if name.startswith(("docker", "br-"))
    ]
    return [LOOPBACK, *(each.address for addresses in bridges for each in addresses if each.family is socket.AF_INET)]


def deployed_settings(aws: EmbeddedAws) -> RuntimeSettings:
    """What the stack told its functions: names that only the deployment knows. All functions are told the same."""
    functions = aws_client("lambda", endpoint=aws.endpoint, region=aws.region).list_functions()["Functions"]
    return RuntimeSettings.model_validate_json(functions[0]["Environment"]["Variables"][VARIABLE])


def make_buckets(aws: EmbeddedAws, settings: RuntimeSettings) -> None:
    """Make the buckets that requests may name beside the data bucket: in an account they are there already, here nobody else makes them."""
    s3 = aws_client("s3", endpoint=aws.endpoint, region=aws.region)
    for bucket in sorted({*settings.paths.input_buckets, *settings.paths.output_buckets}):
        s3.create_bucket(Bucket=bucket)


def write_sam_environment(aws: EmbeddedAws, settings: RuntimeSettings) -> None:
    """What `sam local invoke` cannot know: it leaves references to the stack's resources as they are, and passes on only variables of the template."""
    value = settings.model_copy(update={"endpoint_url": aws.endpoint}).model_dump_json(exclude_defaults=True)
    document = {"Parameters": {VARIABLE: value}}
    (aws.work_dir / SAM_ENVIRONMENT).write_text(json.dumps(document, indent=2) + "\n")
