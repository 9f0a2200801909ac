"""`glue.versions`: a catalog in which no commit to a table is lost."""

from typing import Any

import pytest
from moto.glue.models import FakeTable, GlueBackend

from longhaul.local.moto_repairs import glue as glue_repairs
from tests.local.support import Moto, mends

pytestmark = mends(glue_repairs.versions)


@pytest.fixture
def glue(moto: Moto, *, repaired: bool) -> Any:
    del repaired  # it is by now
    client = moto.client("glue")
    client.create_database(DatabaseInput={"Name": "lake"})
    return client


def make(glue: Any, number: int = 0) -> None:
    glue.create_table(DatabaseName="lake", TableInput=table(number))


def table(number: int) -> dict[str, Any]:
    return {"Name": "flights", "Parameters": {"metadata_location": f"{number}.json"}}


def current(glue: Any) -> tuple[str, str]:
    """The version and what it points at."""
    found = glue.get_table(DatabaseName="lake", Name="flights")["Table"]
    return found["VersionId"], found["Parameters"]["metadata_location"]


def test_of_two_updates_of_one_version_one_wins(glue: Any, race: Any, *, repaired: bool) -> None:
    make(glue)
    version, _ = current(glue)

    def update(number: int) -> None:
        glue.update_table(DatabaseName="lake", TableInput=table(number), VersionId=version)

    answers = race(GlueBackend, "get_table", update)

    assert answers == (["ConcurrentModificationException", "ok"] if repaired else ["ok", "ok"])
    # The loser changed nothing: the winner's is the only version since.
    assert (current(glue)[0] == str(int(version) + 1)) is repaired


def test_of_two_creations_at_once_one_wins(glue: Any, race: Any, *, repaired: bool) -> None:
    answers = race(FakeTable, "__init__", lambda number: make(glue, number))
    assert answers == (["AlreadyExistsException", "ok"] if repaired else ["ok", "ok"])
