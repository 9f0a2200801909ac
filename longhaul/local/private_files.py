"""Files that other users of this machine can neither read nor put a link in the place of."""

import os
from pathlib import Path

UMASK = 0o077
_FOLDER = 0o700
_FILE = 0o600


class ForeignFolderError(RuntimeError):
    """The folder belongs to another user, who could replace what is written there."""


def private(path: str, flags: int) -> int:
    """An `opener` for `open`: no link is followed, and a file that is written is the user's alone.

    Raises:
        OSError: the file cannot be opened; with ELOOP it is a symbolic link.
    """
    file = os.open(path, flags | os.O_NOFOLLOW, _FILE)
    if flags & (os.O_WRONLY | os.O_RDWR):
        # A file that is there already may be one that others can read.
        os.fchmod(file, _FILE)
    return file


def write_private(path: Path, text: str) -> None:
    """Write a file that only its user can read.

    Raises:
        OSError: the file cannot be opened; with ELOOP it is a symbolic link.
    """
    with open(path, "w", opener=private) as file:
        file.write(text)


def make_private_folder(folder: Path) -> None:
    """Make the folder, or close an existing one to other users.

    Raises:
        ForeignFolderError: it belongs to another user, or is reached by a link of one.
    """
    check_owner(folder)
    folder.mkdir(mode=_FOLDER, parents=True, exist_ok=True)
    check_owner(folder)
    folder.chmod(_FOLDER)


def check_owner(folder: Path) -> None:
    """Raises ForeignFolderError for a folder, or a link to one, of another user."""
    try:
        owners = {os.lstat(folder).st_uid, folder.stat().st_uid}
    except FileNotFoundError:
        return
    if owners != {os.geteuid()}:
        raise ForeignFolderError(f"{folder} belongs to another user")
