"""A small fast S3 for benchmarks: nginx over a folder, in a process of its own.

GET and HEAD of one prefix, and its listing, are answered from files. All other calls are passed on
to another server. ETags, `If-Match` and ranges are nginx's; no signature is checked.
Debian: `apt install nginx-light`.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import psutil

_CONFIGURATION: Final = """
daemon off; master_process off; pid "{folder}/pid"; error_log "{folder}/errors" error;
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000; root "{folder}/root";
  client_max_body_size 0; client_body_temp_path "{folder}/body"; proxy_temp_path "{folder}/proxy";
  fastcgi_temp_path "{folder}/t1"; uwsgi_temp_path "{folder}/t2"; scgi_temp_path "{folder}/t3";
  default_type binary/octet-stream;
  server {{
    listen 127.0.0.1:{port};
    proxy_http_version 1.1; proxy_set_header Connection ""; proxy_request_buffering off;
    error_page 404 /missing.xml;
    location / {{ proxy_pass {others}; }}
    location = /{bucket} {{
      if ($args ~ "list-type=2.*prefix={prefix}(%2F|/)") {{ rewrite ^ /listing.xml last; }}
      proxy_pass {others};
    }}
    location /{bucket}/{prefix}/ {{ limit_rate {rate}; }}
    location = /listing.xml {{ }}
    location = /missing.xml {{ }}
  }}
}}
"""
_MISSING: Final = "<Error><Code>NoSuchKey</Code><Message>There is no such key.</Message></Error>"
_START_S: Final = 10


@dataclass(frozen=True)
class FastS3:
    endpoint: str
    process: psutil.Process

    @property
    def cpu_s(self) -> float:
        """The CPU time that it has taken so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)


def etag_of(file: Path) -> str:
    """The ETag that nginx gives a file."""
    status = file.stat()
    return f'"{int(status.st_mtime):x}-{status.st_size:x}"'


def is_installed() -> bool:
    return _nginx() is not None


@contextmanager
def serving(
    files: Path,
    folder: Path,
    bucket: str,
    prefix: str,
    others: str = "http://127.0.0.1:9",
    rate: int = 0,
) -> Iterator[FastS3]:
    """Serve the files as the objects `bucket/prefix/…` while the block runs.

    `folder` gets what the server needs; `others` is the URL of the server for all other calls;
    `rate`, the bytes a second of each request at most, or 0.

    Raises:
        RuntimeError: nginx is missing, or does not start.
    """
    nginx = _nginx()
    if nginx is None:
        raise RuntimeError("there is no nginx: apt install nginx-light")
    root = folder / "root"
    (root / bucket).mkdir(parents=True)
    (root / bucket / prefix).symlink_to(files.resolve())
    (root / "listing.xml").write_text(_listing(files, bucket, prefix))
    (root / "missing.xml").write_text(_MISSING)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    configuration = folder / "nginx.conf"
    configuration.write_text(
        _CONFIGURATION.format(
            folder=folder, port=port, bucket=bucket, prefix=prefix, others=others, rate=rate
        )
    )
    process = subprocess.Popen([nginx, "-c", str(configuration)], stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, process, folder)
        yield FastS3(f"http://127.0.0.1:{port}", psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait()


def _nginx() -> str | None:
    return shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")


def _listing(files: Path, bucket: str, prefix: str) -> str:
    objects = "".join(
        f"<Contents><Key>{prefix}/{escape(file.name)}</Key><Size>{file.stat().st_size}</Size>"
        f"<ETag>{escape(etag_of(file))}</ETag></Contents>"
        for file in sorted(files.iterdir())
    )
    return (
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{bucket}</Name><IsTruncated>false</IsTruncated>{objects}</ListBucketResult>"
    )


def _wait_for(port: int, process: "subprocess.Popen[bytes]", folder: Path) -> None:
    end = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    errors = folder / "errors"
    said = errors.read_text()[-500:] if errors.exists() else ""
    raise RuntimeError(f"nginx did not start: {said}")
