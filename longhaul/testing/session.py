"""One session of Spark for all tests of a run."""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from longhaul.runner.resources import Resources
from longhaul.runner.spark.gateway import Gateway
from longhaul.runner.spark.session import build_session, session_options

RESOURCES: Final = Resources(cores=2, memory_mib=2048)


class _OneSession:
    """A session like a task's for all tests of a run, made when it is first needed."""

    def __init__(self) -> None:
        self._ending = ExitStack()
        self._session: SparkSession | None = None

    def get(self) -> SparkSession:
        if self._session is None:
            with ExitStack() as ending:
                folder = tempfile.TemporaryDirectory(prefix="spark-", ignore_cleanup_errors=True)
                scratch = Path(ending.enter_context(folder))
                gateway = Gateway(scratch, RESOURCES)
                ending.callback(gateway.stop)
                gateway.attach()
                session = build_session("tests", session_options(RESOURCES, scratch))
                ending.callback(session.stop)
                self._session, self._ending = session, ending.pop_all()
        return self._session

    def end(self) -> None:
        self._session = None
        self._ending.close()


SESSION: Final = _OneSession()
