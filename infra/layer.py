"""The layer: the functions' third-party packages, from pinned wheels for the target architecture.

pip alone builds it (no Docker, no cross-compiler: `--only-binary` with the target's platform tags), so `cdk deploy` and `sam local invoke` need
nothing else. The result is cached by what determines it. boto3 goes in whole: the runtime brings one too, but an older one that changes under a
running job; and its service models, most of its 30 MB, are read only when a client asks for them, so trimming would save download time alone.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, Literal

PYTHON_VERSION: Final = "3.13"
# Amazon Linux 2023 (the python3.13 runtime) has glibc 2.34: wheels for that and anything older run there.
MACHINE: Final = {"arm64": "aarch64", "x86_64": "x86_64"}
GLIBC: Final = ("manylinux_2_34", "manylinux_2_28", "manylinux2014")
# Raise when the recipe changes what it makes of the same requirements.
RECIPE: Final = 1


class LayerError(RuntimeError):
    """pip could not put the layer together; the message holds its last words."""


def build(*, requirements: Path, architecture: Literal["arm64", "x86_64"], cache: Path) -> Path:
    """The folder that holds the layer (`python/…`), built unless the cache has it. Safe beside other builds of the same layer.

    Raises:
        LayerError: pip failed: no network, or no wheel for this architecture.
    """
    identity = f"{RECIPE}\n{architecture}\n{PYTHON_VERSION}\n{requirements.read_text()}"
    target = cache / hashlib.sha256(identity.encode()).hexdigest()[:16]
    if target.is_dir():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="building-") as scratch:
        built = Path(scratch) / "layer"
        _install(requirements, MACHINE[architecture], built / "python")
        _strip(built / "python")
        try:
            built.rename(target)
        except OSError:
            # Somebody else's build of the same content came first; renaming onto a non-empty folder is refused.
            if not target.is_dir():
                raise
    return target


def _install(requirements: Path, machine: str, folder: Path) -> None:
    platforms = [f"--platform={glibc}_{machine}" for glibc in GLIBC]
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"),
        *(
            "--no-compile",
            "--only-binary=:all:",
            "--implementation=cp",
            f"--python-version={PYTHON_VERSION}",
            *platforms,
        ),
        *(f"--target={folder}", f"--requirement={requirements}"),
    ]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": ""}
    )
    if done.returncode != 0:
        raise LayerError(f"pip could not build the functions' layer from {requirements}:\n{done.stderr[-2000:]}")


def _strip(folder: Path) -> None:
    """Leave only what is the same in every build: the asset's hash decides whether all functions are deployed again."""
    shutil.rmtree(folder / "bin", ignore_errors=True)
    for cached in folder.rglob("__pycache__"):
        shutil.rmtree(cached)
    for noise in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json"):
        for file in folder.glob(f"*.dist-info/{noise}"):
            file.unlink()
