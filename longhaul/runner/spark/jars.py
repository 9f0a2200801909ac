"""The class path of Spark's JVM: PySpark's jars, three of them as lighter copies.

A copy leaves out what every start pays for and hardly a job needs:

* Signatures. The JVM keeps no class of a signed jar in its AOT cache, and checks each when it
  loads it. Janino, which compiles the code of queries, is signed, by a certificate without a name.
  What pip installs is checked by its hash.
* MLlib's part in each new session. It adds two functions by Scala's reflection, which takes a third
  of the time to a session. `longhaul.runner.spark.mllib` adds them when a job imports MLlib.

`longhaul.runner.spark.aot_training` makes the copies beside the AOT cache. Without them the JVM
takes the jars as they are.
"""

import importlib.util
import os
import re
from pathlib import Path
from typing import Final

from longhaul.runner.spark.aot_cache import cache_folder

LIGHTER: Final = ("janino-*.jar", "commons-compiler-*.jar", "spark-mllib_*.jar")
"""The jars that have something to leave out."""

_LEFT_OUT: Final = re.compile(
    r"META-INF/[^/]+\.(SF|DSA|RSA|EC)"
    r"|META-INF/services/org\.apache\.spark\.sql\.SparkSessionExtensionsProvider"
)


def spark_home() -> Path:
    """Where pip put Spark.

    Raises:
        LookupError: it is not installed.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise LookupError("pyspark is not installed")
    return Path(spec.origin).parent


def class_path() -> list[Path]:
    """Each jar of PySpark, or its copy where there is one."""
    copies = {copy.name: copy for copy in _copies().glob("*.jar")}
    return [
        copy if (copy := copies.get(jar.name)) and _is_of(copy, jar) else jar
        for jar in sorted(_jars().glob("*.jar"))
    ]


def make_copies() -> None:
    """Make the copies that are missing, and delete those of other versions."""
    folder = _copies()
    folder.mkdir(parents=True, exist_ok=True)
    jars = {jar.name: jar for pattern in LIGHTER for jar in _jars().glob(pattern)}
    for copy in folder.iterdir():
        if copy.name not in jars:
            copy.unlink()
    for jar in jars.values():
        copy = folder / jar.name
        if not (copy.is_file() and _is_of(copy, jar)):
            _copy(jar, copy)


def is_left_out(entry: str) -> bool:
    """Whether a copy lacks this file of a jar."""
    return _LEFT_OUT.fullmatch(entry) is not None


def _jars() -> Path:
    return spark_home() / "jars"


def _copies() -> Path:
    return cache_folder() / "jars"


def _is_of(copy: Path, jar: Path) -> bool:
    """Whether the copy was made of this very jar. Layers of an image have whole seconds."""
    return int(copy.stat().st_mtime) == int(jar.stat().st_mtime)


def _copy(jar: Path, copy: Path) -> None:
    """A copy appears whole: a JVM may start meanwhile."""
    from longhaul.runner.slimming import repack  # noqa: PLC0415 - the JVM's start waits for this module

    made = copy.with_suffix(".unfinished")
    repack(jar, made, is_left_out)
    found = jar.stat()
    os.utime(made, ns=(found.st_atime_ns, found.st_mtime_ns))
    made.chmod(0o444)
    made.replace(copy)
