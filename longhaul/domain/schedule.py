"""The proportional lease: waits between beats, of messages and of retries. Pure; in seconds."""

import math
import random

from longhaul.settings import QUEUE_VISIBILITY_S, SQS_VISIBILITY_CAP_S, LeaseSettings

# Clocks differ, and a record of the mapping has no exact time of its receive.
_CAP_MARGIN_S = 5

MAX_VISIBILITY_S = SQS_VISIBILITY_CAP_S - _CAP_MARGIN_S
"""What we ask SQS for at most, counted from the receive."""

# The start of an execution, and a cold heartbeat.
_FIRST_BEAT_MARGIN_S = 30


def interval_s(age_s: float, timing: LeaseSettings) -> int:
    """Seconds until the next beat of an attempt that is `age_s` old.

    In proportion to what a crash would lose, within floor and ceiling. Whole seconds, because Step
    Functions' Wait takes no fractions.
    """
    return min(
        max(math.ceil(timing.beat_fraction * age_s), timing.beat_floor_s), timing.beat_ceiling_s
    )


def visibility_s(interval: int, held_s: float, timing: LeaseSettings) -> int:
    """Visibility timeout that covers the wait `interval`, for a message received `held_s` ago.

    Never past SQS's cap, which counts from the receive: SQS rejects a longer one.
    """
    wanted = math.ceil(timing.visibility_factor * interval + timing.visibility_margin_s)
    return max(0, min(wanted, math.floor(MAX_VISIBILITY_S - held_s)))


def must_extend(first_wait: int, held_s: float) -> bool:
    """Whether a message that was received `held_s` ago would show before its job's first beat."""
    return held_s + first_wait + _FIRST_BEAT_MARGIN_S > QUEUE_VISIBILITY_S


def back_off_s(tries: int, timing: LeaseSettings, rng: random.Random) -> int:
    """Seconds until the next attempt after `tries` unsuccessful ones: exponential with full jitter.

    None after 0, as for the first interruption. Source: AWS Architecture Blog, "Exponential Backoff
    And Jitter".
    """
    if tries == 0:
        return 0
    ceiling = min(timing.backoff_cap_s, timing.backoff_base_s * 2 ** min(tries - 1, 20))
    return math.ceil(rng.uniform(0, ceiling))


def unplaced_wait_s(waited_s: float, timing: LeaseSettings, rng: random.Random) -> int:
    """Seconds until the next attempt of a job that could not be placed for `waited_s`.

    Exponential with full jitter like `back_off_s`, by the time instead of a number of tries.
    """
    ceiling = min(timing.backoff_cap_s, max(timing.backoff_base_s, waited_s))
    return math.ceil(rng.uniform(0, ceiling))


def stop_clearance_s(timing: LeaseSettings) -> int:
    """Seconds after which a stopped task is gone.

    Its successor starts no sooner, so that attempts never overlap.
    """
    return timing.stop_timeout_s + timing.stop_margin_s
