"""What Spark would have left on a task's disk: a folder for each number of small files."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

COUNTS = (1, 2, 4)


@cache
def spark_output() -> Path:
    """The folder above these; made once in a process."""
    root = Path(tempfile.mkdtemp(prefix="longhaul-simulation-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    for count in COUNTS:
        folder = root / str(count)
        folder.mkdir()
        for number in range(count):
            name = f"part-{number:05d}-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f-c000.parquet"
            (folder / name).write_bytes(f"file {number} of {count}".encode())
        (folder / "_SUCCESS").write_bytes(b"")
    return root
