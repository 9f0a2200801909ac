"""The assembly of a new project, as the CDK made it once: `longhaul up` of one needs no CDK.

`UPDATE_SNAPSHOTS=1 pytest tests/cdk` writes the file of it.
"""

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from longhaul.config.project import BUILT_IN, Project
from longhaul.config.settings import CONTEXT_KEY, database_name
from longhaul.config.sources import sources

FILE: Final = Path(__file__).with_name("new_project") / "premade.json"
STACK: Final = "NewProject"
JOBS: Final = ("count_rows", "count_rows_spark", *BUILT_IN)
CODE: Final = "code"
"""The folder of the functions. The rest of the package is what is installed here."""


def settings_of(project: Project, context: Mapping[str, Any]) -> dict[str, Any]:
    """What the template is made of, but for names and this machine's architecture."""
    settings = project.of(None).checked(context[CONTEXT_KEY])
    return settings.model_dump(mode="json", exclude={"stack_name", "architecture"})


def write(folder: Path, project: Project, context: Mapping[str, Any]) -> bool:
    """Write the assembly, unless more than names differs from a new project.

    Args:
        folder: the assembly's; it is replaced as a whole.
        project: whose stack it is.
        context: its settings on this machine, as CDK context.

    Returns:
        whether it was written.
    """
    premade = json.loads(FILE.read_text("utf-8"))
    if settings_of(project, context) != premade["settings"]:
        return False
    name = project.stack_name
    shutil.rmtree(folder, ignore_errors=True)
    no_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(sources() / "functions", folder / CODE / "functions", ignore=no_caches)
    for part in ("template", "assets"):
        text = json.dumps(premade[part])
        # In this order: a name that holds another's is not replaced again.
        text = text.replace(database_name(STACK), database_name(name)).replace(STACK, name)
        text = text.replace(_listed(JOBS), _listed(project.job_names))
        (folder / f"{name}.{part}.json").write_text(text, "utf-8")
    return True


def _listed(jobs: Iterable[str]) -> str:
    """As a function's settings have it: JSON in JSON."""
    return json.dumps(json.dumps([*jobs], separators=(",", ":")))[1:-1]
