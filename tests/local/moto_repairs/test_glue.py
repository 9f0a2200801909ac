"""`glue.databases` and `glue.versions`: a catalog in which no commit to a table is lost."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError
from moto.glue.models import FakeTable

from longhaul.local.moto_repairs import glue as glue_repairs
from tests.local.support import Moto, error_code

DATABASE = {
    "Type": "AWS::Glue::Database",
    "Properties": {
        "CatalogId": {"Ref": "AWS::AccountId"},
        "DatabaseInput": {"Name": "lake", "LocationUri": "s3://data/tables/lake"},
    },
}


def test_template_makes_a_database(moto: Moto, *, repaired: bool) -> None:
    if repaired:
        glue_repairs.databases(moto.patches)
    template = {"Resources": {"Lake": DATABASE}, "Outputs": {"Name": {"Value": {"Ref": "Lake"}}}}
    cloudformation, glue = moto.client("cloudformation"), moto.client("glue")

    if not repaired:
        with pytest.raises(ResponseParserError, match="Internal Server Error"):
            cloudformation.create_stack(StackName="s", TemplateBody=json.dumps(template))
        return
    cloudformation.create_stack(StackName="s", TemplateBody=json.dumps(template))

    (stack,) = cloudformation.describe_stacks(StackName="s")["Stacks"]
    (output,) = stack["Outputs"]
    found = glue.get_database(Name=output["OutputValue"])["Database"]
    assert (found["Name"], found["LocationUri"]) == ("lake", "s3://data/tables/lake")


@pytest.fixture
def glue(moto: Moto, *, repaired: bool) -> Any:
    if repaired:
        glue_repairs.versions(moto.patches)
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


def raced(act: Callable[[int], None]) -> list[str]:
    """What two writers are answered who act at once."""

    def answer(number: int) -> str:
        try:
            act(number)
        except ClientError as error:
            return error_code(error)
        return "ok"

    with ThreadPoolExecutor(2) as pool:
        return sorted(pool.map(answer, range(1, 3)))


def test_of_two_updates_of_one_version_one_wins(glue: Any, *, repaired: bool) -> None:
    make(glue)
    version, _ = current(glue)

    answers = raced(
        lambda number: glue.update_table(
            DatabaseName="lake", TableInput=table(number), VersionId=version
        )
    )

    assert answers == (["ConcurrentModificationException", "ok"] if repaired else ["ok", "ok"])
    # The loser changed nothing: the winner's is the only version since.
    assert (current(glue)[0] == str(int(version) + 1)) is repaired


def test_of_two_creations_at_once_one_wins(
    glue: Any, monkeypatch: pytest.MonkeyPatch, *, repaired: bool
) -> None:
    both_looked = Barrier(2)
    # With stock moto the other one comes, however late. With the repair it never does.
    patience_s = 0.3 if repaired else 30
    stock_init = FakeTable.__init__

    def made(self: Any, *args: Any, **named: Any) -> None:
        with suppress(BrokenBarrierError):
            both_looked.wait(patience_s)
        stock_init(self, *args, **named)

    monkeypatch.setattr(FakeTable, "__init__", made)

    answers = raced(lambda number: make(glue, number))

    assert answers == (["AlreadyExistsException", "ok"] if repaired else ["ok", "ok"])
