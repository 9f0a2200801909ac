import json
import re
from typing import Any

from tests.cdk.synthesis import Synthesis
from tests.layers import DEMO_JOBS, ROOT, engine_files


def test_the_image_is_built_as_the_settings_say(usual: Synthesis, varied: Synthesis) -> None:
    """By an option of BuildKit: without the setting any builder will do."""

    def source(found: Synthesis) -> dict[str, Any]:
        manifest = json.loads(found.template_file.with_name("Longhaul.assets.json").read_text())
        (image,) = manifest["dockerImages"].values()
        asked: dict[str, Any] = image["source"]
        return asked

    (output,) = source(varied)["dockerOutputs"]
    assert output.startswith("type=docker,")
    assert "compression=zstd" in output
    assert "dockerOutputs" not in source(usual)
    assert source(varied)["dockerBuildArgs"] == {"PIP_INDEX_URL": "https://pypi.example.com/simple"}
    assert "dockerBuildArgs" not in source(usual)


def test_the_image_is_built_from_the_jobs_code_alone(usual: Synthesis) -> None:
    files = usual.asset_files("longhaul/runner/Dockerfile")
    demo = {f"project/jobs/{each.name}" for each in DEMO_JOBS.glob("*.py")}

    assert {
        "longhaul/runner/__init__.py",
        "longhaul/core/settings.py",
        "longhaul/core/lease.py",
        "longhaul/runner/requirements.lock",
    } <= files
    others = {file for file in files if not re.fullmatch(r"longhaul/(?!engines).*\.py", file)}
    # Nothing that makes the stack: a change of it leaves the image alone.
    assert others == engine_files("core", "runner") | demo | {
        ".dockerignore",
        "Dockerfile",
        "longhaul/runner/Dockerfile",
        "longhaul/runner/requirements.lock",
        "longhaul/runner/build-requirements.lock",
        "longhaul/runner/spark/log4j2.properties",
        "longhaul/py.typed",
    }


def test_the_image_does_not_run_as_root(usual: Synthesis) -> None:
    lines = (ROOT / "longhaul/runner/Dockerfile").read_text().splitlines()

    assert [line for line in lines if line.startswith(("ARG RUN", "USER"))] == [
        "ARG RUN_AS=longhaul",
        "USER ${RUN_AS}",
    ]
    (manifest,) = usual.folder.glob("*.assets.json")
    images = json.loads(manifest.read_text())["dockerImages"].values()
    assert images
    assert all("dockerBuildArgs" not in image["source"] for image in images)
    assert 'CMD ["python", "-m", "longhaul.engines.fargate.runner"]' in lines
