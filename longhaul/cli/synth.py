"""Synthesizes the CDK app, in a process of its own."""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from longhaul.config.errors import SettingsError
from longhaul.config.project import demo, load_project
from longhaul.config.project_file import ENV_VARIABLE, VARIABLE
from longhaul.config.settings import CONTEXT_KEY
from longhaul.config.sources import sources, work_dir
from longhaul.config.sources import version as own_version
from longhaul.core.settings import Architecture

DEFAULT_WORK_DIR = work_dir()
APP: Final = "longhaul.cdk.app"
PROFILE = Path(__file__).with_name("profile.json")
"""CDK context of the local profile: seconds where AWS has minutes."""

# jsii starts Node, which loads all of aws-cdk-lib: seconds, and more on a busy machine.
# The first one downloads what functions import. pip and npm give up an index that is silent; a slow
# one may take many minutes, and what was half done would begin again.
SYNTH_LIMIT_S = 1800
_WRONG_SETTINGS = 2  # as the app documents
# In a folder of `kept_synth`: a digest of what the assembly was made of, written last.
_STAMP: Final = "longhaul-inputs"
# What of `sources()` goes into templates and assets, or makes them.
_SOURCES: Final = ("longhaul", "functions", "cdk.json", ".dockerignore", "pyproject.toml")
_LIBRARIES: Final = ("aws-cdk-lib", "constructs", "jsii")
# From `platform.machine()` to the names of the settings. Any other machine uses the default.
ARCHITECTURES: Final[dict[str, Architecture]] = {
    "aarch64": "arm64",
    "arm64": "arm64",
    "x86_64": "x86_64",
    "AMD64": "x86_64",
}


class SynthError(RuntimeError):
    """The app did not synthesize; the message holds what it said."""


class WrongSettingsError(SynthError, SettingsError):
    """The app refused a setting or a job; the message is the app's own, with the place."""


def synth(
    output_dir: Path,
    *,
    context: dict[str, object] | None = None,
    profile: Path | None = PROFILE,
    project: Path | None = None,
) -> Path:
    """Synthesize the app into a cloud assembly.

    With a profile it is for this machine's architecture, so that its containers run here, unless
    the context names another. Without a profile it is what `cdk deploy` deploys.

    Args:
        output_dir: where the assembly is written.
        context: CDK context that replaces the local profile's, key by key.
        profile: a JSON file of CDK context, or None.
        project: the folder of a project, or None for the settings of `cdk.json`.

    Returns:
        the directory of the assembly.

    Raises:
        WrongSettingsError: a setting or a job is wrong.
        SynthError: the app failed, or took too long.
    """
    given = context or {}
    if profile is not None:
        given = _for_this_machine(json.loads(profile.read_text()) | given)
    environment = _without_aws(dict(os.environ)) | {
        "CDK_OUTDIR": str(output_dir),
        "CDK_CONTEXT_JSON": json.dumps(given),
    }
    environment.pop(VARIABLE, None)
    # Of the local profile the context has what the environment `local` says.
    environment |= {ENV_VARIABLE: ""} if profile else {}
    if project is not None:
        environment[VARIABLE] = str(project)
    output_dir.mkdir(parents=True, exist_ok=True)
    # jsii's Node has a folder there, which it leaves if it is ended, as by Ctrl-C.
    with tempfile.TemporaryDirectory(prefix="synth-", ignore_cleanup_errors=True) as scratch:
        try:
            done = subprocess.run(
                [sys.executable, "-m", APP],
                cwd=sources(),
                env=environment | {"TMPDIR": scratch},
                capture_output=True,
                text=True,
                timeout=SYNTH_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SynthError(f"the CDK app was not done after {SYNTH_LIMIT_S} s") from error
    if done.returncode != 0:
        output = done.stderr.strip() or done.stdout.strip()
        if done.returncode == _WRONG_SETTINGS:
            raise WrongSettingsError(output)
        raise SynthError(f"the CDK app failed with exit code {done.returncode}:\n{output}")
    return output_dir


def kept_synth(
    output_dir: Path,
    *,
    context: dict[str, object],
    project: Path | None,
    begins: Callable[[], object] = lambda: None,
) -> Path:
    """Synthesize with the local profile, unless the folder has what that would write.

    A synthesis takes 6 seconds of CPU. What the jobs of a project are is no part of what is
    compared, only their names: on this machine they run from the project's folder. On EMR
    Serverless they run from the assembly.

    Args:
        output_dir: the assembly's folder; it is replaced as a whole.
        context: as for `synth`.
        project: as for `synth`.
        begins: called before a synthesis.

    Raises:
        WrongSettingsError: a setting or a job is wrong.
        SynthError: the app failed, or took too long.
    """
    digest = _digest(context, project)
    stamp = output_dir / _STAMP
    if stamp.is_file() and stamp.read_text() == digest:
        return output_dir
    begins()
    # First: an interrupt may leave a part of the folder, which no later call may take for whole.
    stamp.unlink(missing_ok=True)
    shutil.rmtree(output_dir, ignore_errors=True)
    synth(output_dir, context=context, project=project)
    stamp.write_text(digest)
    return output_dir


def _digest(context: dict[str, object], project: Path | None) -> str:
    jobs = load_project(project) if project else demo()
    given = _for_this_machine(json.loads(PROFILE.read_text()) | context)
    parts: list[object] = [
        given,
        sys.version,
        own_version(),
        *(version(name) for name in _LIBRARIES),
    ]
    files: list[tuple[str, Path]] = []
    if jobs is not None:
        parts += [jobs.text, jobs.job_names]
        files.append(("requirements", jobs.requirements))
        settings: dict[str, Any] = given[CONTEXT_KEY]
        if settings.get("emr_serverless") is not None or "emr_serverless" in jobs.settings:
            files += [(f"jobs/{name}", path) for name, path in _files(jobs.jobs)]
    for name in _SOURCES:
        files += [(f"{name}/{inner}", path) for inner, path in _files(sources() / name)]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    for name, path in files:
        content = path.read_bytes() if path.is_file() else b""
        digest.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return digest.hexdigest()


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    """The files below a folder, or the file itself, in order; without Python's caches."""
    if not root.is_dir():
        yield "", root
        return
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(root).as_posix(), path


def _for_this_machine(context: dict[str, Any]) -> dict[str, Any]:
    architecture = ARCHITECTURES.get(platform.machine())
    if architecture is None:
        return context
    return context | {CONTEXT_KEY: {"architecture": architecture} | context.get(CONTEXT_KEY, {})}


def _without_aws(environment: dict[str, str]) -> dict[str, str]:
    """Without credentials or profiles: a synth must not depend on an account, nor call one."""
    return {
        name: value for name, value in environment.items() if not name.startswith(("AWS_", "CDK_"))
    }
