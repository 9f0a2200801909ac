"""How long a job waits for its next attempt. Pure; in seconds."""

import math
import random

from longhaul.core.settings import LeaseSettings


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
