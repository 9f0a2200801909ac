"""What takes long to make and is kept: made once, also when several processes want it at once."""

import tempfile
from collections.abc import Callable
from pathlib import Path


def cached(folder: Path, name: str, make: Callable[[Path], None]) -> Path:
    """What `make` writes at the path that it gets, the only one in a scratch folder of its own."""
    target = folder / name
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="building-") as scratch:
        built = Path(scratch) / name
        make(built)
        try:
            built.rename(target)
        except OSError:
            # Renaming onto a non-empty folder fails: another process made the same before.
            if not target.exists():
                raise
    return target
