"""What pyproject.toml cannot say.

A wheel has what lies beside the package in a checkout, and requirements.txt has the pins of all
extras.
"""

import re
import shutil
from pathlib import Path
from typing import Final

from setuptools import setup
from setuptools.command.build_py import build_py

# As `longhaul.config.sources` reads them. `functions` is code that is deployed, and no module here.
SHIPPED: Final = ("cdk.json", ".dockerignore", "pyproject.toml", "functions")


class BuildWithSources(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return  # the checkout has them
        folder = Path(self.build_lib) / "longhaul" / "_sources"
        folder.mkdir(parents=True, exist_ok=True)
        for name in SHIPPED:
            if Path(name).is_dir():
                no_caches = shutil.ignore_patterns("__pycache__")
                shutil.copytree(name, folder / name, dirs_exist_ok=True, ignore=no_caches)
            else:
                shutil.copy(name, folder)


def extras() -> dict[str, list[str]]:
    """Extra → its requirements; those of every installation are under the empty name.

    A line such as `# [deploy] [local]` says in which extras the lines below it are.
    """
    found: dict[str, list[str]] = {"": []}
    names = [""]
    for line in Path("requirements.txt").read_text("utf-8").splitlines():
        if re.fullmatch(r"#( \[\w+\])+", line):
            names = re.findall(r"\w+", line)
        elif requirement := line.partition("#")[0].strip():
            for name in names:
                found.setdefault(name, []).append(requirement)
    optional = (each for name in found if name for each in found[name])
    return found | {"all": list(dict.fromkeys(optional))}


EXTRAS: Final = extras()
setup(
    cmdclass={"build_py": BuildWithSources},
    install_requires=EXTRAS.pop(""),
    extras_require=EXTRAS,
)
