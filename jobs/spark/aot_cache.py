"""The JVM's AOT cache: Spark's classes, loaded and linked ahead of time, and what the compiler learned of them. It halves the time to the first result.

A cache serves one JVM, one class path and one set of flags. It lies with them, in the Python environment that they were installed into, and its name is a
hash of all three: an upgrade finds none and makes another. `jobs.spark.aot_training` makes it; without it the JVM starts as it always did.
"""

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

# An older or newer JVM, a missing jar, a file that is cut off or no cache: the JVM then goes on without it. What lies behind the header is mapped as a shared
# library is, and checked no more than one: the whole file would have to be read, a twentieth of a start. `aot_training` has checked it when it was made.
_USE: Final = (
    "-XX:AOTCache={path}",
    # Warns of single stubs that it compiles anew; that it cannot use the cache at all is an error, and stays in the log.
    "-Xlog:aot*=error",
)
# From here on references are not compressed, and no cache that was made with smaller heaps fits.
_HEAP_LIMIT_MIB: Final = 32 * 1024


def cache_folder() -> Path:
    """In the image where nothing can be written at run time, and on a developer's machine below `.venv`, whose jars and JVM it is worthless without."""
    return Path(sys.prefix) / "var" / "cache" / "longhaul"


def cache_path(java: Path, jars: Sequence[Path], flags: Sequence[str]) -> Path:
    """Where the cache for this JVM, class path and flags is, or would be."""
    known = hashlib.sha256()
    for file in (java, *jars):
        found = file.stat()
        # Whole seconds, as the JVM compares them: layers of an image keep no more.
        known.update(f"{file}\0{found.st_size}\0{int(found.st_mtime)}\n".encode())
    known.update("\0".join(flags).encode())
    return cache_folder() / f"spark-{known.hexdigest()[:16]}.aot"


def use(path: Path, heap_mib: int) -> list[str]:
    """The options that use the cache; none when there is none, or none for such a heap."""
    if heap_mib >= _HEAP_LIMIT_MIB or not path.is_file():
        return []
    return [option.format(path=path) for option in _USE]
