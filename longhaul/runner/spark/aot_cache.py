"""The JVM's AOT cache: Spark's classes, loaded and linked ahead of time, and compiler profiles.

It halves the time to the first result. A cache fits one JVM, one class path and one set of flags.
It is in the Python environment that holds them, and its name is a hash of all three: an upgrade
finds none and makes another. `longhaul.runner.spark.aot_training` makes it. Without it the JVM
starts as usual.
"""

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

# If the JVM is of another version, a jar is missing, or the file is cut off or no cache, the JVM
# starts without it. It checks the header only: to read the whole file would take a twentieth of a
# start. `aot_training` checked the rest when it made the cache.
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


def cache_path(java: Path, jars: Sequence[Path], flags: Sequence[str]) -> Path:
    """Where the cache for this JVM, class path and flags is, or would be."""
    known = hashlib.sha256()
    for file in (java, *jars):
        found = file.stat()
        # Whole seconds, as the JVM compares them: the layers of an image have no fractions.
        known.update(f"{file}\0{found.st_size}\0{int(found.st_mtime)}\n".encode())
    known.update("\0".join(flags).encode())
    return cache_folder() / f"spark-{known.hexdigest()[:16]}.aot"


def use(path: Path, heap_mib: int) -> list[str]:
    """The options that use the cache; empty if there is none, or none for such a heap."""
    if heap_mib >= HEAP_LIMIT_MIB or not path.is_file():
        return []
    return [option.format(path=path) for option in _USE]
