"""Processes that die at one of their writes to AWS."""

from collections.abc import Callable
from typing import Any


class Killed(BaseException):
    """Not an Exception: like SIGKILL, it must not be caught."""


class Mortal:
    """Clients whose process dies at its n-th write, before or after it takes effect."""

    WRITES = (
        "create_multipart_upload",
        "upload_part",
        "complete_multipart_upload",
        "put_object",
        "delete_objects",
        "abort_multipart_upload",
        "create_table",
        "update_table",
    )

    def __init__(self, dies_at: int = 10**6, *, after: bool = False) -> None:
        self.writes = 0
        self._dies_at, self._after = dies_at, after

    def client(self, inner: Any) -> Any:
        counted = self

        class Client:
            def __getattr__(self, name: str) -> Any:
                call = getattr(inner, name)
                return counted.mortal(call) if name in Mortal.WRITES else call

        return Client()

    def mortal(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def write(**arguments: Any) -> Any:
            self.writes += 1
            if self.writes > self._dies_at or (self.writes == self._dies_at and not self._after):
                raise Killed
            answer = call(**arguments)
            if self.writes == self._dies_at:
                raise Killed
            return answer

        return write
