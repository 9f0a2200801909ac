"""Durations as people write them: `90s`, `6h`, `1h30m`, `2d`. Pure."""

import re

_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,7})s)?", re.ASCII)


def parse_duration_s(text: str) -> int:
    """Seconds in a duration such as `1h30m`.

    Raises:
        ValueError: the text is no duration, or it is zero.
    """
    match = _DURATION.fullmatch(text)
    seconds = (
        sum(int(n) * unit for n, unit in zip(match.groups(), _UNITS.values(), strict=True) if n)
        if match
        else 0
    )
    if seconds == 0:
        raise ValueError("not a duration: write for example 90s, 15m, 6h, 1h30m or 2d")
    return seconds


def format_duration(seconds: float) -> str:
    """The shortest text that `parse_duration_s` reads as the same whole seconds.

    `0s` for less than one second.
    """
    rest, parts = int(seconds), []
    for unit, size in _UNITS.items():
        n, rest = divmod(rest, size)
        if n:
            parts.append(f"{n}{unit}")
    return "".join(parts) or "0s"
