"""What a benchmark on the embedded stack sends, sees and says."""

import os
from pathlib import Path

import pytest

from benchmarks import timed_work


def test_the_first_attempt_fails_and_the_second_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "events"
    monkeypatch.setenv(timed_work.EVENTS, str(file))
    body = timed_work.Work("a", 1, first_s=2, fails=True).to_json()
    slept: list[float] = []

    with pytest.raises(timed_work.WorkError):
        timed_work.do(body, slept.append)
    timed_work.do(body, slept.append)

    assert slept == [2, 1]

    assert [each["event"] for each in timed_work.events(file)] == ["begin", "fail", "begin", "end"]
    assert {each["pid"] for each in timed_work.events(file)} == {os.getpid()}
