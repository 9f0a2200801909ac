"""An input of several GB is staged in memory that does not depend on its size."""

import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.layers import ROOT
from tests.patience import DEADLINE_S
from tests.servers import serving

pytestmark = pytest.mark.slow

GIB = 2**30
SIZE = 4 * GIB
# Python, boto3 and parts in transfer: a tenth of the input.
MEMORY_LIMIT = 400 * 2**20
BLOCK = bytes(1024 * 1024)

STAGE = """
import re, sys
from pathlib import Path
import boto3
from longhaul.runner.io.work_area import DiskArea
from longhaul.runner.io.listing import InputListing
from longhaul.runner.io.transfer import Moving
from longhaul.runner.stopping import Stop
from longhaul.core.places import DataPath
s3 = boto3.client("s3", endpoint_url=sys.argv[1])
inputs = {"large": DataPath("s3", "landing", "large.csv")}
area = DiskArea(s3, Path(sys.argv[2]), {})
print(area.stage(InputListing(s3, "data"), inputs, Moving(Stop()))["large"].size_bytes)
# Not ru_maxrss: it includes the memory of the parent process.
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024)
"""


@pytest.fixture
def endpoint() -> Iterator[str]:
    """An S3 with one object of zeros, served in ranges. moto would keep it in memory."""

    def answer(call: BaseHTTPRequestHandler) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", call.headers["Range"] or "bytes=0-")
        assert asked
        start, end = int(asked[1]), int(asked[2] or SIZE - 1)
        left = end - start + 1
        call.send_response(200 if call.command == "HEAD" else 206)
        call.send_header("Content-Length", str(left))
        call.send_header("Content-Range", f"bytes {start}-{end}/{SIZE}")
        call.send_header("ETag", '"zeros"')
        call.end_headers()
        while left and call.command == "GET":
            sent = min(left, len(BLOCK))
            call.wfile.write(BLOCK[:sent])
            left -= sent

    with serving(answer) as url:
        yield url


def test_input_of_several_gb_is_staged_in_memory_of_a_tenth_of_its_size(
    endpoint: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", STAGE, endpoint, str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    size, memory = map(int, done.stdout.split())
    assert size == SIZE
    (file,) = (tmp_path / "inputs" / "large").iterdir()
    assert file.stat().st_size == SIZE
    assert memory < MEMORY_LIMIT, f"{memory / 2**20:.0f} MiB"
