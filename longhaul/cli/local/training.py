"""Makes the AOT cache of Spark's JVM in the background, once for each installation.

Later jobs then start in half the time.
"""

import subprocess
import sys
from types import TracebackType
from typing import Final, Self

from longhaul.config.sources import sources

# It leaves at once where the cache exists. At SIGTERM it kills the JVM and removes half a cache.
_COMMAND: Final = [sys.executable, "-m", "longhaul.runner.spark.aot_training"]
_END_WITHIN_S: Final = 30


class BackgroundTraining:
    """A child process that ends with the block at the latest. The next one starts from scratch."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            _COMMAND,
            cwd=sources(),  # a module of the working directory must not hide ours
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return self

    @property
    def is_at_work(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> None:
        """Wait until the cache is there, or cannot be made."""
        self._process.wait()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(_END_WITHIN_S)
