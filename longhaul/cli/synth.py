"""Synthesizes the CDK app, in a process of its own."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from longhaul.config.project import VARIABLE
from longhaul.config.settings import CONTEXT_KEY, SettingsError
from longhaul.config.sources import sources, work_dir
from longhaul.settings import Architecture

DEFAULT_WORK_DIR = work_dir()
APP: Final = "longhaul.cdk.app"
PROFILE = Path(__file__).with_name("profile.json")
"""CDK context of the local profile: seconds where AWS has minutes."""

# jsii starts Node, which loads all of aws-cdk-lib: seconds, and more on a busy machine.
SYNTH_LIMIT_S = 300
_WRONG_SETTINGS = 2  # as the app documents
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
    if project is not None:
        environment[VARIABLE] = str(project)
    output_dir.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            [sys.executable, "-m", APP],
            cwd=sources(),
            env=environment,
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
