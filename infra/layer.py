"""The layer: the functions' third-party packages, from pinned wheels for the target architecture.

pip takes files with the hashes of `functions/requirements.lock` and no others. It alone builds the
layer (no Docker, no cross-compiler: `--only-binary` with the target's platform tags), so `cdk
deploy` and `sam local invoke` need nothing else. The result is cached under a hash of what it
depends on. The layer holds all of boto3: the runtime's own is older, and AWS changes it at any
time. Most of its 30 MB are service models, which are read only when a client needs them, so
trimming them would save download time alone.
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
RECIPE: Final = 2


class LayerError(RuntimeError):
    """pip could not build the layer; the message holds the end of its output."""


def build(*, requirements: Path, architecture: Architecture, cache: Path) -> Path:
    """The folder that holds the layer (`python/…`), built unless the cache has it.

    Several builds of the same layer may run at once.

    Raises:
        LayerError: pip failed: no network, or no wheel for this architecture.
    """
    target = cache / name(requirements=requirements, architecture=architecture)
    if target.is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="building-") as scratch:
        built = Path(scratch) / "layer"
        _install(requirements, architecture, built / "python")
        _strip(built / "python")
        try:
            built.rename(target)
        except OSError:
            # Renaming onto a non-empty folder fails: another build of the same layer came first.
            if not target.is_dir():
                raise
    return target


def name(*, requirements: Path, architecture: Architecture) -> str:
    """The layer's name in the cache: a hash of what it depends on."""
    identity = f"{RECIPE}\n{architecture}\n{PYTHON_VERSION}\n{requirements.read_text()}"
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
