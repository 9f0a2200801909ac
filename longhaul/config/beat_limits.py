"""What the times of the beats must fit: the history, and SQS's 12 hours. Imports no CDK."""

from collections.abc import Iterator
from typing import Final

from longhaul.config.errors import Case
from longhaul.domain.beat import MAX_VISIBILITY_S, interval_s, visibility_s
from longhaul.domain.request import MAX_TIMEOUT_S
from longhaul.settings import LeaseSettings

EVENTS_OF_A_BEAT: Final = 9
"""Wait 2, Lambda task 5, Choice 2: what a good beat adds."""

# Step Functions ends an execution at 25,000 events. The rest is for start, settle and tries of
# beats that fail, which cost 3 events each. Where beats fail for long, their tries take the place
# of good beats and write less: one in half a ceiling, on average.
# https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html
MAX_EVENTS_OF_BEATS: Final = 22_000


def beats_of(duration_s: int, lease: LeaseSettings) -> int:
    """How often an attempt of that many seconds beats, when no beat fails."""
    age_s = beats = 0
    while age_s < duration_s:
        age_s += interval_s(age_s, lease)
        beats += 1
    return beats


def beat_cases(lease: LeaseSettings) -> Iterator[Case]:
    """The longest job fits the history, and SQS shows no message before it is handed over."""
    events = beats_of(MAX_TIMEOUT_S, lease) * EVENTS_OF_A_BEAT
    yield Case(
        ("lease",),
        events > MAX_EVENTS_OF_BEATS,
        f"with these beats a job of 7 days needs {events:,} events of its execution's history "
        f"({EVENTS_OF_A_BEAT} a beat); at most {MAX_EVENTS_OF_BEATS:,} leave room for the rest "
        "before Step Functions ends the execution at 25,000; raise lease.beat_ceiling_s "
        f"({lease.beat_ceiling_s}; the default is 300), or lease.beat_fraction "
        f"({lease.beat_fraction})",
    )
    # A beat decides by the age of the receive. One that comes just before the age is followed by
    # one after the longest wait, and that one may be as late as the visibility allows.
    longest_s = visibility_s(lease.beat_ceiling_s, 0, lease)
    latest_s = lease.hand_over_age_s + longest_s
    yield Case(
        ("lease",),
        latest_s > MAX_VISIBILITY_S,
        f"with these beats a hand-over comes up to {latest_s:,} s after the receive "
        f"(lease.hand_over_age_s {lease.hand_over_age_s:,} and {longest_s:,} of the longest wait, "
        f"for which a beat extends), but SQS hides a message for {MAX_VISIBILITY_S:,} s at most; "
        "lower lease.hand_over_age_s or lease.beat_ceiling_s",
    )
