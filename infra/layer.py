"""The layer: the functions' third-party packages, from pinned wheels for the target architecture.

pip takes files with the hashes of `functions/requirements.lock` and no others. It alone builds the
layer (no Docker, no cross-compiler: `--only-binary` with the target's platform tags), so `cdk
deploy` and `sam local invoke` need nothing else. The result is cached under a hash of what it
depends on. The layer has a boto3 of its own: the runtime's is older, and AWS changes it at any
time. It lacks what no function uses: 27 of 85 MB, and 2,253 of 3,612 files. Drivers on EMR
Serverless get all the packages, because a job may call any service.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from longhaul.settings import Architecture

PYTHON_VERSION: Final = "3.13"
# Amazon Linux 2023 (the python3.13 runtime) has glibc 2.34: wheels for it and for older ones run
# there.
MACHINE: Final = {"arm64": "aarch64", "x86_64": "x86_64"}
GLIBC: Final = ("manylinux_2_34", "manylinux_2_28", "manylinux_2_17", "manylinux2014")
# Raise it when a change of this module changes what the same requirements give.
RECIPE: Final = 3
SERVICES: Final = (
    *("dynamodb", "ecs", "emr-serverless", "events", "glue"),
    *("s3", "sns", "sqs", "stepfunctions"),
)
"""The services that functions call. Botocore's models of all others are most of its size."""
# Imported by pyiceberg's catalog of Hive, by rich when it prints source code, and by drivers.
NOT_IMPORTED: Final = ("hive_metastore", "pygments", "psutil")


class LayerError(RuntimeError):
    """pip could not build the layer; the message holds the end of its output."""


def packages(repository: Path, architecture: Architecture, *, whole: bool = False) -> Path:
    """As `build`, of what this repository's functions require."""
    return build(
        requirements=repository / "functions" / "requirements.lock",
        architecture=architecture,
        cache=repository / ".cache" / "layer",
        whole=whole,
    )


def build(
    *, requirements: Path, architecture: Architecture, cache: Path, whole: bool = False
) -> Path:
    """The folder that holds the layer (`python/…`), built unless the cache has it.

    With `whole` it also holds what no function uses. Several builds of the same layer may run at
    once.

    Raises:
        LayerError: pip failed: no network, or no wheel for this architecture.
    """
    target = cache / name(requirements=requirements, architecture=architecture, whole=whole)
    if target.is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="building-") as scratch:
        built = Path(scratch) / "layer"
        _install(requirements, architecture, built / "python")
        _strip(built / "python")
        if not whole:
            _trim(built / "python")
        try:
            built.rename(target)
        except OSError:
            # Renaming onto a non-empty folder fails: another build of the same layer came first.
            if not target.is_dir():
                raise
    return target


def name(*, requirements: Path, architecture: Architecture, whole: bool = False) -> str:
    """The layer's name in the cache: a hash of what it depends on."""
    left = "all" if whole else f"{SERVICES} {NOT_IMPORTED}"
    identity = f"{RECIPE}\n{architecture}\n{PYTHON_VERSION}\n{left}\n{requirements.read_text()}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def platforms(architecture: Architecture) -> list[str]:
    """Pip's arguments for wheels that run on Lambda, and on Debian 13, with that architecture."""
    names = (f"--platform={glibc}_{MACHINE[architecture]}" for glibc in GLIBC)
    return ["--implementation=cp", f"--python-version={PYTHON_VERSION}", *names]


def _install(requirements: Path, architecture: Architecture, folder: Path) -> None:
    command = [
        *(
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
        ),
        *(
            "--no-compile",
            "--only-binary=:all:",
            # The lock names every package: what it does not name is not installed.
            "--no-deps",
            "--require-hashes",
            *platforms(architecture),
        ),
        *(f"--target={folder}", f"--requirement={requirements}"),
    ]
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": ""},
    )
    if done.returncode != 0:
        raise LayerError(
            f"pip could not build the functions' layer from {requirements}:\n{done.stderr[-2000:]}"
        )


def _strip(folder: Path) -> None:
    """Delete what differs between builds: a new hash of the asset redeploys all functions."""
    shutil.rmtree(folder / "bin", ignore_errors=True)
    for cached in folder.rglob("__pycache__"):
        shutil.rmtree(cached)
    for noise in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json"):
        for file in folder.glob(f"*.dist-info/{noise}"):
            file.unlink()


def _trim(folder: Path) -> None:
    """Delete what no function uses."""
    for service in (folder / "botocore" / "data").glob("*/"):
        if service.name not in SERVICES:
            shutil.rmtree(service)
    for package in NOT_IMPORTED:
        shutil.rmtree(folder / package, ignore_errors=True)
