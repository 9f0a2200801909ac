"""What is known of an audio file (WAV), and its preview: read and written a block at a time."""

import hashlib
import wave
from pathlib import Path
from typing import NamedTuple


class Facts(NamedTuple):
    file: str
    bytes: int
    sha256: str
    channels: int | None = None
    sample_rate: int | None = None
    seconds: float | None = None
    problem: str | None = None


def describe(file: Path, previews: Path, preview_s: int) -> Facts:
    """The checksum and the header of a file, which leaves its preview in the folder."""
    with file.open("rb") as opened:
        sha256 = hashlib.file_digest(opened, "sha256").hexdigest()
    facts = Facts(file.name.partition("-")[2], file.stat().st_size, sha256)
    try:
        with wave.open(str(file)) as audio:
            facts = facts._replace(
                channels=audio.getnchannels(),
                sample_rate=audio.getframerate(),
                seconds=audio.getnframes() / max(1, audio.getframerate()),
            )
            # Hidden files are not published: a task that fails here leaves no half preview.
            # Two files may be equal: each has its own unfinished one.
            unfinished = previews / f".{file.name}"
            with wave.open(str(unfinished), "wb") as preview:
                preview.setparams(audio.getparams())
                preview.writeframes(audio.readframes(preview_s * audio.getframerate()))
    except (wave.Error, EOFError) as error:
        return facts._replace(problem=str(error) or "the file ends too soon")
    unfinished.replace(previews / f"{sha256}.wav")
    return facts
