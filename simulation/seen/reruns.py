"""Which jobs run others again, as those who sent them said."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from simulation.aws.platform.hosts import current_host
from simulation.seen.sightings import Sent

if TYPE_CHECKING:
    from simulation.seen.record import Seen

_ACT = "rerun_tree."


class Reruns:
    """Successes that were sent again as other jobs.

    Attributes:
        of: The key of the job that each runs again, by its own key.
    """

    def __init__(self, seen: "Seen") -> None:
        self._seen = seen
        self.of: dict[str, str] = {}

    def note(self, sent: Sent) -> None:
        of = f"{sent.stage}#{sent.request.get('rerun_of')}"
        if sent.work is not None and "rerun_of" in sent.request and of != sent.key:
            self.of.setdefault(sent.key, of)

    def origin(self, key: str) -> str:
        """The first of the jobs that it runs again."""
        while key in self.of:
            key = self.of[key]
        return key

    def beside(self, key: str) -> Iterator[str]:
        """All others that do the same work: the first, and those that run it again."""
        origin = self.origin(key)
        if origin != key:
            yield origin
        yield from (each for each in self.of if each != key and self.origin(each) == origin)


def is_sent_by_rerun() -> bool:
    host = current_host()
    return host is not None and host.name.startswith(_ACT)
