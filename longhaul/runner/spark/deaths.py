"""The end of a JVM, as Python sees it. Imports no Spark."""

import sys


def may_be_jvm_death(error: BaseException) -> bool:
    """Whether it may be one: a broken connection rather than an answer."""
    if isinstance(error, ConnectionError):
        return True
    py4j = sys.modules.get("py4j.protocol")  # without it nothing can have raised its errors
    return py4j is not None and (
        isinstance(error, py4j.Py4JNetworkError)
        or (isinstance(error, py4j.Py4JError) and not isinstance(error, py4j.Py4JJavaError))
    )
