"""What pyproject.toml cannot say: a wheel has what lies beside the package in a checkout."""

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


setup(cmdclass={"build_py": BuildWithSources})
