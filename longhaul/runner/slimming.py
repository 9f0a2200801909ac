"""Leaves out of the image what no job uses: `python slimming.py [site-packages]`.

The image is pulled for every job, so its size is start time. The build runs this right after pip,
in the same layer: what a later layer deletes is pulled all the same. It imports nothing of ours.

Each line below says what a part is for, and so why no job misses it.
`tests/runner/test_slimming.py` runs jobs, SQL, MLlib and every format on a tree that was slimmed.
"""

import platform
import shutil
import site
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

UNUSED_JARS: Final = {
    "State store of stateful streaming, where it is asked for. The default store stays.": (
        "rocksdbjni-*",
    ),
    "Stores of the history server and of a web page on disk; tasks serve no page.": (
        "leveldbjni-all-*",
    ),
    "Spark Connect's server, and pipelines, which run on it: jobs are drivers themselves.": (
        "spark-connect_*",
        "spark-pipelines_*",
    ),
    "Hive's metastore and SQL server, with their databases. Sessions have the in-memory catalog. "
    "hive-storage-api stays: ORC needs it.": (
        "hive-beeline-*",
        "hive-cli-*",
        "hive-common-*",
        "hive-exec-*",
        "hive-jdbc-*",
        "hive-metastore-*",
        "hive-serde-*",
        "hive-service-rpc-*",
        "hive-shims-*",
        "spark-hive_*",
        "spark-hive-thriftserver_*",
        "datanucleus-*",
        "derby*",
        "HikariCP-*",
        "ST4-*",
        "antlr-runtime-*",
        "commons-dbcp-*",
        "commons-pool-*",
        "javax.jdo-*",
        "javolution-*",
        "jdo-api-*",
        "jpam-*",
        "jta-*",
        "libfb303-*",
        "libthrift-*",
        "opencsv-*",
        "super-csv-*",
        "transaction-api-*",
    ),
    "Clusters: Kubernetes, YARN, ZooKeeper. A task is one machine.": (
        "kubernetes-*",
        "volcano-*",
        "vertx-*",
        "zjsonpatch-*",
        "spark-kubernetes_*",
        "spark-yarn_*",
        "curator-*",
        "zookeeper-*",
        "audience-annotations-*",
    ),
    "Spark's Scala shell, with its compiler and terminal.": (
        "spark-repl_*",
        "scala-compiler-*",
        "jline-*",
    ),
    "The REST service of Spark's web page, which is off.": (
        "jersey-*",
        "hk2-*",
        "aopalliance-repackaged-*",
        "osgi-resource-locator-*",
    ),
    "Tokens of users of that page.": ("jjwt-*",),
    "TLS of Netty between machines.": ("netty-tcnative-boringssl-static-*",),
    "Netty for other systems.": (
        "netty-transport-native-epoll-*-riscv64",
        "netty-transport-native-kqueue-*",
        "netty-transport-classes-kqueue-*",
    ),
}
"""Patterns of jars, without `.jar`, by what they are for."""

UNUSED_FOLDERS: Final = (
    "pyspark/examples",
    "pyspark/data",
    "pyspark/jars/connect-repl",  # the jars of Spark Connect's shell
    "pyarrow/include",
    "pyarrow/tests",
)

# Arrow's network service: pyarrow reads footers here, and no other of its libraries can go.
UNUSED_FILES: Final = ("pyarrow/libarrow_flight.*", "pyarrow/_flight.*")

# Jars with libraries for many systems: those of others go. Where Linux's are, for each machine.
NATIVE: Final = {
    "zstd-jni-*": {"x86_64": "linux/amd64/", "aarch64": "linux/aarch64/"},
    "lz4-java-*": {
        "x86_64": "net/jpountz/util/linux/amd64/",
        "aarch64": "net/jpountz/util/linux/aarch64/",
    },
    "snappy-java-*": {
        "x86_64": "org/xerial/snappy/native/Linux/x86_64/",
        "aarch64": "org/xerial/snappy/native/Linux/aarch64/",
    },
}
_LIBRARIES: Final = (".so", ".dll", ".dylib", ".jnilib", ".a")


class UnknownJarsError(Exception):
    """Spark is not the one that the lists were made for."""


@dataclass(frozen=True)
class Saved:
    """Bytes in files that were deleted, or made smaller."""

    files: int
    size_bytes: int


def slim(packages: Path, machine: str) -> Saved:
    """Slim the packages in a folder, for a machine as `platform.machine()` names it.

    Files are replaced and never written to: they may be links to those of another tree.

    Raises:
        UnknownJarsError: a pattern fits nothing, so another version of Spark or pyarrow has to be
            looked at.
    """
    jars = packages / "pyspark" / "jars"
    unused = [
        jar
        for patterns in UNUSED_JARS.values()
        for pattern in patterns
        for jar in _matching(jars, pattern)
    ]
    repacked = [
        (jar, places[machine])
        for pattern, places in NATIVE.items()
        if machine in places
        for jar in _matching(jars, pattern)
    ]
    unused += [file for pattern in UNUSED_FILES for file in _present(packages, pattern)]
    files = [*unused, *(file for folder in UNUSED_FOLDERS for file in _files(packages / folder))]
    saved = sum(file.stat().st_size for file in files)
    for file in unused:
        file.unlink()
    for folder in UNUSED_FOLDERS:
        shutil.rmtree(packages / folder)
    saved += sum(_without_others(jar, ours) for jar, ours in repacked)
    return Saved(len(files) + len(repacked), saved)


def _matching(jars: Path, pattern: str) -> Sequence[Path]:
    found = sorted(jars.glob(f"{pattern}.jar"))
    if not found:
        raise UnknownJarsError(
            f"no jar is named {pattern}.jar in {jars}: another version of Spark? Look at what its "
            "jars are for, and correct the lists of longhaul/runner/slimming.py"
        )
    return found


def _present(packages: Path, pattern: str) -> Sequence[Path]:
    found = sorted(packages.glob(pattern))
    if not found:
        raise UnknownJarsError(f"nothing is named {pattern}: correct longhaul/runner/slimming.py")
    return found


def _files(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        raise UnknownJarsError(f"there is no folder {folder}: correct longhaul/runner/slimming.py")
    return (file for file in folder.rglob("*") if file.is_file())


def repack(jar: Path, target: Path, is_left_out: Callable[[str], bool]) -> Sequence[str]:
    """Write a copy of the jar without some of its files; returns the names of the others."""
    with zipfile.ZipFile(jar) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            if not is_left_out(entry.filename):
                new.writestr(entry, old.read(entry))  # with the entry's own time and compression
        return new.namelist()


def _without_others(jar: Path, ours: str) -> int:
    """Replace the jar by one without libraries of other systems; returns the bytes saved."""
    before, smaller = jar.stat(), jar.with_suffix(".smaller")
    kept = repack(
        jar, smaller, lambda name: name.endswith(_LIBRARIES) and not name.startswith(ours)
    )
    if not any(name.endswith(_LIBRARIES) for name in kept):
        smaller.unlink()
        raise UnknownJarsError(
            f"{jar.name} has no library below {ours}: correct longhaul/runner/slimming.py"
        )
    smaller.chmod(before.st_mode)
    smaller.replace(jar)
    return before.st_size - jar.stat().st_size


def main(arguments: Sequence[str]) -> int:
    packages = Path(arguments[0]) if arguments else Path(site.getsitepackages()[0])
    try:
        saved = slim(packages, platform.machine())
    except UnknownJarsError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"left out: {saved.files} files, {saved.size_bytes / 1e6:,.0f} MB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
