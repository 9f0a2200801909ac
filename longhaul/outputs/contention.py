"""How publishers wait that write one place at the same time. Pure."""

import zlib
from typing import Final

_WAIT_S: Final = 0.1
_WAIT_CAP_S: Final = 3.0


def conflict_wait_s(token: str, tries: int) -> float:
    """Grows, and differs between attempts, so that publishers that collided part."""
    spread = zlib.crc32(f"{token} {tries}".encode()) / 2**32
    return min(_WAIT_CAP_S, _WAIT_S * (1 << min(tries, 10))) * (0.3 + 0.7 * spread)
