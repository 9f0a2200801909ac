"""AWS's own time, as its answers give it.

When a message was sent is told by SQS. A cancel or the end of a run is compared with that, so it
must not be told by a laptop's clock.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from longhaul.ports import Clock

# A `Date` is in whole seconds, and the answer took some time to come.
_RIGHT_WITHIN = timedelta(seconds=2)


class AwsTime:
    """A host's clock, set right by the `Date` of the answers that it is shown.

    A clock that agrees with the answer is left alone: it is the finer one. One that does not is set
    to the answer's full second, so that it is rather behind than ahead: what was sent in the second
    of a cancel counts as sent after it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = timedelta()

    def heard(self, answer: Mapping[str, Any]) -> None:
        """Note the time in an answer that has just come; one without a `Date` changes nothing."""
        date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        if date is not None:
            said, here = parsedate_to_datetime(date), self._clock.now()
            is_right = said <= here < said + _RIGHT_WITHIN
            self._offset = timedelta() if is_right else said - here

    def now(self) -> datetime:
        return self._clock.now() + self._offset
