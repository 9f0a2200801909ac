"""The image of the jobs: the checkout's, and for a project two layers more at its end."""

import shutil
import tempfile
from pathlib import Path
from typing import Final

from aws_cdk import aws_ecr_assets as ecr_assets
from constructs import Construct

from longhaul.config.project import PACKAGE, Project
from longhaul.config.requirements import constraints, lines_of
from longhaul.config.settings import Settings

PLATFORM: Final = {
    "arm64": ecr_assets.Platform.LINUX_ARM64,
    "x86_64": ecr_assets.Platform.LINUX_AMD64,
}

# Loads the image into Docker, as without `--output`. The base's layers are packed again too.
# https://docs.docker.com/build/exporters/oci-docker/
ZSTD_LAYERS: Final = (
    "type=docker,oci-mediatypes=true,compression=zstd,compression-level=3,force-compression=true"
)
DOCKERFILE: Final = "longhaul/runner/Dockerfile"
# Beside the checkout's, which is copied into the image: with other content in its place, the layer
# of our code would differ from project to project.
PROJECT_DOCKERFILE: Final = "Dockerfile"

_REQUIREMENTS: Final = """\

# What the project's jobs import. The constraints are what is installed above, so that a requirement
# that needs another version of it fails here, with both names.
USER root
COPY project/requirements.txt project/constraints.txt /opt/project/
RUN pip install --compile -r /opt/project/requirements.txt -c /opt/project/constraints.txt
USER ${RUN_AS}
"""
_JOBS: Final = """\

# The project's jobs, in the last layer: a change of a job rebuilds and uploads this alone.
ENV LONGHAUL_JOBS=/opt/project/jobs PYTHONPATH=/opt/project/jobs
COPY project/jobs /opt/project/jobs
"""


def job_image(
    scope: Construct, id_: str, *, settings: Settings, repository: Path, project: Project | None
) -> ecr_assets.DockerImageAsset:
    if project is None:
        return _asset(scope, id_, settings, repository, DOCKERFILE)
    # The asset copies what it needs while it is made.
    with tempfile.TemporaryDirectory(prefix="longhaul-image-") as folder:
        lay_out(Path(folder), repository, project)
        return _asset(scope, id_, settings, Path(folder), PROJECT_DOCKERFILE)


def lay_out(folder: Path, repository: Path, project: Project) -> None:
    """What Docker builds a project's image from: the checkout's part, and the project's."""
    no_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(repository / PACKAGE, folder / PACKAGE, ignore=no_caches)
    shutil.copy(repository / ".dockerignore", folder)
    with (folder / ".dockerignore").open("a") as ignored:
        ignored.write("!project\n")
    shutil.copytree(project.jobs, folder / "project" / "jobs", ignore=no_caches)
    steps = (repository / DOCKERFILE).read_text("utf-8")
    if lines_of(project.requirements):
        shutil.copy(project.requirements, folder / "project" / "requirements.txt")
        (folder / "project" / "constraints.txt").write_text(constraints(repository), "utf-8")
        steps += _REQUIREMENTS
    (folder / PROJECT_DOCKERFILE).write_text(steps + _JOBS, "utf-8")


def _asset(
    scope: Construct, id_: str, settings: Settings, directory: Path, dockerfile: str
) -> ecr_assets.DockerImageAsset:
    given = {"PYTHON_IMAGE": settings.python_image, "PIP_INDEX_URL": settings.pip_index}
    return ecr_assets.DockerImageAsset(
        scope,
        id_,
        directory=str(directory),
        file=dockerfile,  # the `.dockerignore` of the folder says what goes in
        platform=PLATFORM[settings.architecture],
        build_args={name: value for name, value in given.items() if value} or None,
        outputs=[ZSTD_LAYERS] if settings.image_compression == "zstd" else None,
    )
