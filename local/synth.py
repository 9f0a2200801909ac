"""Runs the CDK app, in a process of its own, with the local profile."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

CONTEXT_KEY = "longhaul"
REPOSITORY = Path(__file__).resolve().parent.parent
PROFILE = REPOSITORY / "local" / "profile.json"
# jsii starts Node, which imports the whole of aws-cdk-lib: seconds, and more on a busy machine.
SYNTH_LIMIT_S = 300
# As the settings name what `platform.machine()` says; anything else keeps the usual architecture.
ARCHITECTURES = {"aarch64": "arm64", "arm64": "arm64", "x86_64": "x86_64", "AMD64": "x86_64"}


class SynthError(RuntimeError):
    """The app did not synthesize; the message holds what it said."""


def synth(output_dir: Path, *, context: dict[str, object] | None = None, profile: Path | None = PROFILE) -> Path:
    """Synthesize the app into a cloud assembly.

    With a profile it is for this machine's architecture unless the context names one: containers made from it run here. Without, it is what `cdk deploy` deploys.

    Args:
        output_dir: where the assembly is written.
        context: CDK context that replaces the local profile's, key by key.
        profile: a JSON file of CDK context, or None.

    Returns:
        the directory of the assembly.

    Raises:
        SynthError: the app failed, or took too long.
    """
    given = context or {}
    if profile is not None:
        given = _for_this_machine(json.loads(profile.read_text()) | given)
    environment = _without_aws(dict(os.environ)) | {
        "CDK_OUTDIR": str(output_dir),
        "CDK_CONTEXT_JSON": json.dumps(given),
    }
    output_dir.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            [sys.executable, "app.py"],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SYNTH_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SynthError(f"app.py was not done after {SYNTH_LIMIT_S} s") from error
    if done.returncode != 0:
        raise SynthError(
            f"app.py failed with exit code {done.returncode}:\n{done.stderr.strip() or done.stdout.strip()}"
        )
    return output_dir


def _for_this_machine(context: dict[str, Any]) -> dict[str, Any]:
    architecture = ARCHITECTURES.get(platform.machine())
    if architecture is None:
        return context
    return context | {CONTEXT_KEY: {"architecture": architecture} | context.get(CONTEXT_KEY, {})}


def _without_aws(environment: dict[str, str]) -> dict[str, str]:
    """Without credentials or profiles: a synth for this machine must not depend on, nor look up, anyone's account."""
    return {name: value for name, value in environment.items() if not name.startswith(("AWS_", "CDK_"))}
