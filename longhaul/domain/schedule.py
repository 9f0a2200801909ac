"""The proportional lease: how long to wait between beats, how long a message stays invisible, how long a retry waits. Pure; seconds throughout."""

import math
import random

from longhaul.settings import SQS_VISIBILITY_CAP_S, LeaseSettings

_CAP_MARGIN_S = 5  # clocks differ, and a record of the mapping does not say exactly when it was received


def interval_s(age_s: float, numbers: LeaseSettings) -> int:
    """Seconds until the next beat of an attempt that is `age_s` old: in proportion to what a crash would lose, within floor and ceiling.

    Whole seconds, because Step Functions' Wait takes no others.
    """
    return min(max(math.ceil(numbers.beat_fraction * age_s), numbers.beat_floor_s), numbers.beat_ceiling_s)


def visibility_s(interval: int, held_s: float, numbers: LeaseSettings) -> int:
    """Seconds of visibility timeout that cover the wait `interval`, for a message received `held_s` seconds ago.

    Never past SQS's cap, which counts from the receive: SQS rejects what is beyond it, it does not clamp.
    """
    wanted = math.ceil(numbers.visibility_factor * interval + numbers.visibility_margin_s)
    return max(0, min(wanted, math.floor(SQS_VISIBILITY_CAP_S - _CAP_MARGIN_S - held_s)))


def back_off_s(tries: int, numbers: LeaseSettings, rng: random.Random) -> int:
    """Seconds until the next attempt after `tries` unsuccessful ones: exponential with full jitter.

    Source: AWS Architecture Blog, "Exponential Backoff And Jitter".
    """
    ceiling = min(numbers.backoff_cap_s, numbers.backoff_base_s * 2 ** min(tries - 1, 20))
    return math.ceil(rng.uniform(0, ceiling))


def stop_clearance_s(numbers: LeaseSettings) -> int:
    """Seconds after which a stopped task is surely gone: its successor starts no sooner, so that attempts never overlap."""
    return numbers.stop_timeout_s + numbers.stop_margin_s


def deferral_s(numbers: LeaseSettings, rng: random.Random) -> int:
    """Seconds for which a message is put back that found no free slot; jittered, so that a backlog does not come back as one wave."""
    return rng.randint(numbers.defer_min_s, numbers.defer_max_s)
