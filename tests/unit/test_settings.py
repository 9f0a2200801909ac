"""Settings as a function or a task reads them, perhaps those of a newer version."""

import json
from collections.abc import Iterator
from typing import Final

import pytest

from longhaul.core.settings import VARIABLE, RuntimeSettings, runtime_settings
from tests.builders import settings

SETTINGS: Final = settings()


@pytest.fixture(autouse=True)
def unread() -> Iterator[None]:
    """Settings are read once in a process: forget them before and after the test."""
    runtime_settings.cache_clear()
    yield
    runtime_settings.cache_clear()


def test_code_reads_settings_of_a_newer_version_and_ignores_what_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # For the seconds of a deploy, and of a rollback, old code has the new environment.
    newer = json.loads(SETTINGS.model_dump_json())
    newer["tariff"] = 1
    newer["lease"]["patience_s"] = 2
    newer["stages"][0]["colour"] = "blue"
    monkeypatch.setenv(VARIABLE, json.dumps(newer))

    assert runtime_settings() == SETTINGS


def test_a_known_setting_with_a_wrong_value_is_still_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = json.loads(SETTINGS.model_dump_json())
    wrong["lease"]["beat_floor_s"] = 0
    monkeypatch.setenv(VARIABLE, json.dumps(wrong))

    with pytest.raises(ValueError, match="beat_floor_s"):
        runtime_settings()


def test_synthesis_refuses_a_setting_that_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="extra_forbidden"):
        RuntimeSettings.model_validate({**SETTINGS.model_dump(), "tariff": 1})
