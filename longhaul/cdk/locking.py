"""Pins with hashes: `python -m longhaul.cdk.locking` (`make lock`), after a pin has changed.

`requirements.txt` names what is needed; `requirements.lock` beside it names every package that is
then installed, with the hashes of its files for both architectures. pip installs from the lock with
`--require-hashes` and takes nothing else, whatever an index or a mirror answers.
"""

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.parser import BytesParser
from pathlib import Path
from typing import Final, get_args

from longhaul.cdk.layer import platforms
from longhaul.config.sources import sources
from longhaul.settings import Architecture

LOCKED: Final = (
    "functions/requirements.txt",
    "longhaul/runner/requirements.txt",
    "longhaul/runner/build-requirements.txt",
)
# Published as a source archive alone, which pip builds with what build-requirements.txt pins.
SOURCE_ONLY: Final = frozenset({"pyspark"})
_QUIET: Final = ("--quiet", "--disable-pip-version-check", "--no-input")
_HEADER: Final = "# Written by `make lock` from {name}. Change that file, and run it again.\n"

Pip = Callable[[Sequence[str]], str]


class LockError(RuntimeError):
    """The pins cannot be locked; the message says which, and why."""


@dataclass
class Locked:
    """One package: its version, and the sha256 of each of its files."""

    version: str
    hashes: set[str] = field(default_factory=set)


def run_pip(arguments: Sequence[str]) -> str:
    """Pip's stdout.

    Raises:
        LockError: it failed; the message holds the end of its output.
    """
    command = [sys.executable, "-m", "pip", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise LockError(f"pip {arguments[0]} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def pins(requirements: Path) -> dict[str, str]:
    """Package → version, as the file pins them.

    Raises:
        LockError: a line is no pin.
    """
    found = {}
    for line in requirements.read_text("utf-8").splitlines():
        text = line.partition("#")[0].strip()
        if text:
            match = re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.+!]+)", text)
            if match is None:
                raise LockError(f"{requirements}: {text} is no pin; write name==version")
            found[_plain(match[1])] = match[2]
    return found


def lock(requirements: Path, pip: Pip = run_pip) -> str:
    """The text of the lock of that file.

    Raises:
        LockError: pip finds no such files, or the architectures would get different versions.
    """
    wanted = pins(requirements)
    locked: dict[str, Locked] = {}
    wheels = [f"{name}=={version}" for name, version in wanted.items() if name not in SOURCE_ONLY]
    for name in sorted(SOURCE_ONLY & set(wanted)):
        locked[name], needed = _source(name, wanted[name], pip)
        wheels += needed
    for architecture in get_args(Architecture):
        for name, version, digest in _wheels(wheels, architecture, pip):
            entry = locked.setdefault(name, Locked(version))
            if entry.version != version:
                raise LockError(
                    f"{requirements}: {name} would be {entry.version} on one architecture and "
                    f"{version} on {architecture}; pin it"
                )
            entry.hashes.add(digest)
    return _HEADER.format(name=requirements.name) + "".join(_lines(locked))


def _wheels(
    requirements: Sequence[str], architecture: Architecture, pip: Pip
) -> Iterator[tuple[str, str, str]]:
    """Name, version and sha256 of what pip would install there."""
    report = pip(
        [
            *("install", *_QUIET, "--dry-run", "--ignore-installed", "--report=-"),
            *("--only-binary=:all:", *platforms(architecture), "--target=unused"),
            *requirements,
        ]
    )
    for each in json.loads(report)["install"]:
        digest = each["download_info"]["archive_info"]["hashes"]["sha256"]
        yield _plain(each["metadata"]["name"]), each["metadata"]["version"], digest


def _source(name: str, version: str, pip: Pip) -> tuple[Locked, list[str]]:
    """The source archive of a package, and what it requires."""
    with tempfile.TemporaryDirectory() as folder:
        pip(
            [
                *("download", *_QUIET, "--no-deps", f"--no-binary={name}", f"--dest={folder}"),
                f"{name}=={version}",
            ]
        )
        (file,) = Path(folder).iterdir()
        with file.open("rb") as archive:
            digest = hashlib.file_digest(archive, "sha256").hexdigest()
        return Locked(version, {digest}), _requires(file)


def _requires(archive: Path) -> list[str]:
    """What a source archive says that it needs, without its extras."""
    with tarfile.open(archive) as files:
        for member in files:
            if member.name.count("/") == 1 and member.name.endswith("/PKG-INFO"):
                content = files.extractfile(member)
                said = BytesParser().parsebytes(content.read() if content else b"")
                needed = said.get_all("Requires-Dist") or []
                return [each for each in needed if "extra ==" not in each]
    raise LockError(f"{archive.name} has no PKG-INFO that would say what it requires")


def _lines(locked: Mapping[str, Locked]) -> Iterator[str]:
    for name, entry in sorted(locked.items()):
        hashes = (f" \\\n    --hash=sha256:{digest}" for digest in sorted(entry.hashes))
        yield f"{name}=={entry.version}{''.join(hashes)}\n"


def _plain(name: str) -> str:
    """The normalized name of a package (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> int:
    for name in LOCKED:
        requirements = sources() / name
        try:
            text = lock(requirements)
        except LockError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        requirements.with_suffix(".lock").write_text(text, "utf-8")
        sys.stdout.write(f"written: {requirements.with_suffix('.lock').relative_to(sources())}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
