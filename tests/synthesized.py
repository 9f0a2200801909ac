"""Cloud assemblies for tests, each synthesized once in a test run.

A synthesis costs seconds of Node, so the workers of a run share the assemblies. Tests must not
write into them.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from longhaul.cli.synth import PROFILE, synth
from longhaul.config.project import load_project
from longhaul.config.settings import CONTEXT_KEY
from tests.layers import ROOT


def local_profile(factory: pytest.TempPathFactory) -> Path:
    """The assembly that `longhaul up` deploys, with the trigger of the demo."""
    local = json.loads(PROFILE.read_text())[CONTEXT_KEY]
    demo = load_project(ROOT / "examples" / "demo")
    on_object = demo.settings["stages"][0]["advanced"]["on_object"]
    local["stages"][0]["advanced"]["on_object"] = on_object
    context = {CONTEXT_KEY: local}
    return once(factory, "local-profile", lambda folder: synth(folder, context=context))


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder that `make` writes for the first caller. Other workers wait for it."""
    base = factory.getbasetemp()
    # A worker's base folder is a subfolder of the run's.
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = run / "synthesized" / name
    folder.parent.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            # Renamed once complete, so that a failed synthesis leaves no folder behind.
            unfinished = folder.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            make(unfinished)
            unfinished.rename(folder)
    return folder
