"""docs/reference/settings.md: each field of each model, with default, range and reason."""

import re
from typing import Any

import pytest

from docs import settings_page
from longhaul.core.settings import LeaseSettings
from tests.projects import checked


def test_the_page_is_what_the_models_say() -> None:
    text = settings_page.PAGE.read_text("utf-8")
    assert text == settings_page.page(text), "run `python -m docs.settings_page`"


def test_the_pages_name_no_time_of_the_lease_that_does_not_exist() -> None:
    named = {
        name
        for page in settings_page.PAGE.parents[1].rglob("*.md")
        for name in re.findall(r"`lease\.(\w+)`", page.read_text("utf-8"))
    }
    assert set() < named <= set(LeaseSettings.model_fields)


@pytest.mark.parametrize(
    "lease",
    [
        {
            "beat_floor_s": 5,
            "visibility_margin_s": 30,
            "backoff_base_s": 2,
            "backoff_cap_s": 30,
        },
        {
            "beat_fraction": 0.5,
            "beat_ceiling_s": 1_500,
            "hand_over_age_s": 39_000,
            "progress_period_s": 30,
        },
    ],
    ids=["failover", "fewest calls"],
)
def test_what_the_page_recommends_is_allowed(lease: dict[str, Any]) -> None:
    checked({"lease": lease})
    for name, value in lease.items():
        assert f"`lease.{name}` {value}" in " ".join(settings_page.PAGE.read_text("utf-8").split())
