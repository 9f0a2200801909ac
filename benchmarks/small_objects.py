"""CPU time of a client for each GET of a small object, by s3transfer and by the native client.

Each client runs in a process of its own, in turns, against nginx and against the embedded S3. The
CPU time of the server is told beside it.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import boto3
import psutil

from benchmarks import pairs
from benchmarks.fast_s3 import serving
from longhaul.core.places import DataPath
from longhaul.local.credentials import aws_client
from longhaul.local.moto_server import MotoServer
from longhaul.runner.io.disk_area import DiskArea
from longhaul.runner.io.listing import InputListing
from longhaul.runner.io.small_objects import SmallObjects
from longhaul.runner.io.transfer import Moving
from longhaul.runner.stopping import Stop

_BUCKET, _PREFIX = "landing", "raw"
_CLIENTS = ("native", "s3transfer")
_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "NO_PROXY": "127.0.0.1",
}


def main() -> int:
    parser = pairs.parser(__doc__, 3)
    parser.add_argument("--objects", type=int, default=10_000, help="default: 10,000")
    parser.add_argument("--kb", type=int, default=60, help="the size of each (default: 60)")
    parser.add_argument("--client", choices=_CLIENTS, help="only run this one, on --endpoint")
    parser.add_argument("--endpoint", help="the S3 of --client")
    arguments = parser.parse_args()
    os.environ.update(_CREDENTIALS)
    if arguments.client:
        sys.stdout.write(json.dumps(_used(arguments.client, arguments.endpoint)) + "\n")
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = folder / "files"
        files.mkdir()
        for number in range(arguments.objects):
            (files / f"{number:06}.csv").write_bytes(os.urandom(arguments.kb * 1_000))
        moto = MotoServer(0)
        endpoint = f"http://127.0.0.1:{moto.port}"
        s3 = aws_client("s3", endpoint=endpoint, region="us-east-1")
        s3.create_bucket(Bucket=_BUCKET)
        for file in files.iterdir():
            s3.put_object(Bucket=_BUCKET, Key=f"{_PREFIX}/{file.name}", Body=file.read_bytes())
        (folder / "nginx").mkdir()
        with serving(files, folder / "nginx", _BUCKET, _PREFIX) as fast:
            servers = {"nginx": (fast.endpoint, fast.process), "moto": (endpoint, psutil.Process())}
            lines = [
                _line(server, client, runs, arguments.objects)
                for (server, client), runs in _in_turns(servers, arguments.runs).items()
            ]
        moto.stop()
    sys.stdout.write("\n".join(["CPU ms for each GET (server's beside it)", *lines]) + "\n")
    return 0


Runs = list[dict[str, float]]


def _in_turns(
    servers: dict[str, tuple[str, psutil.Process]], runs: int
) -> dict[tuple[str, str], Runs]:
    found: dict[tuple[str, str], Runs] = {
        (server, client): [] for server in servers for client in _CLIENTS
    }
    for round_ in range(runs):
        for server, client in sorted(found, reverse=bool(round_ % 2)):
            endpoint, process = servers[server]
            before = process.cpu_times()
            command = (sys.executable, "-m", "benchmarks.small_objects")
            given = ("--client", client, "--endpoint", endpoint)
            done = subprocess.check_output([*command, *given])
            after = process.cpu_times()
            of_server = after.user + after.system - before.user - before.system
            found[server, client].append(json.loads(done) | {"server": of_server})
            sys.stderr.write(f"round {round_}: {client} on {server}: {found[server, client][-1]}\n")
    return found


def _line(server: str, client: str, runs: Runs, objects: int) -> str:
    each = {
        name: statistics.median(run[name] for run in runs) * 1_000 / objects
        for name in ("user", "system", "server")
    }
    return (
        f"  {client} on {server}: {each['user'] + each['system']:.2f} (user {each['user']:.2f},"
        f" server {each['server']:.2f}; {statistics.median(run['wall'] for run in runs):.1f} s,"
        f" {max(run['mib'] for run in runs):.0f} MiB)"
    )


def _used(client: str, endpoint: str) -> dict[str, float]:
    """The CPU-seconds of this process for staging, without its imports."""
    s3 = boto3.client("s3", endpoint_url=endpoint)
    small = SmallObjects(s3, boto3.Session().get_credentials) if client == "native" else None
    with tempfile.TemporaryDirectory() as name:
        area = DiskArea(s3, Path(name), {}, small)
        inputs = {"raw": DataPath("s3", _BUCKET, f"{_PREFIX}/")}
        before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        area.stage(InputListing(s3, "data"), inputs, Moving(Stop()))
        wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
    return {
        "user": round(after.ru_utime - before.ru_utime, 3),
        "system": round(after.ru_stime - before.ru_stime, 3),
        "wall": round(wall, 2),
        "mib": round(psutil.Process().memory_info().rss / 2**20),
    }


if __name__ == "__main__":
    sys.exit(main())
