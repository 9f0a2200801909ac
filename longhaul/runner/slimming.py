"""Leaves out of the image what no job uses: `python slimming.py [site-packages]`.

The image is pulled for every job, so its size is start time. The build runs this right after pip,
in the same layer: what a later layer deletes is pulled all the same. It imports nothing of ours.

Each line below says what a part is for, and so why no job misses it.
`tests/runner/test_slimming.py` runs jobs, SQL, MLlib and every format on a tree that was slimmed.
"""

import shutil
import site
import sys
from collections.abc import Sequence
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


class UnknownJarsError(Exception):
    """Spark is not the one that the lists were made for."""


def slim(packages: Path) -> tuple[int, int]:
    """Delete what is unused of the packages in a folder; returns how many files, and their bytes.

    Raises:
        UnknownJarsError: a pattern fits nothing, so another version of Spark or pyarrow has to be
            looked at.
    """
    jars = (f"pyspark/jars/{each}.jar" for patterns in UNUSED_JARS.values() for each in patterns)
    folders = (f"{folder}/**/*" for folder in UNUSED_FOLDERS)
    patterns = (*jars, *UNUSED_FILES, *folders)
    files = [file for pattern in patterns for file in _found(packages, pattern)]
    saved = sum(file.stat().st_size for file in files)
    for file in files:
        file.unlink()
    for folder in UNUSED_FOLDERS:
        shutil.rmtree(packages / folder)
    return len(files), saved


def _found(packages: Path, pattern: str) -> Sequence[Path]:
    found = [each for each in sorted(packages.glob(pattern)) if each.is_file()]
    if not found:
        raise UnknownJarsError(
            f"no file is named {pattern}: another version of Spark or pyarrow? Look at what its"
            " files are for, and correct the lists of longhaul/runner/slimming.py"
        )
    return found


def main(arguments: Sequence[str]) -> int:
    packages = Path(arguments[0]) if arguments else Path(site.getsitepackages()[0])
    try:
        count, size_bytes = slim(packages)
    except UnknownJarsError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"left out: {count} files, {size_bytes / 1e6:,.0f} MB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
