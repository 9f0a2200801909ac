"""Rules of the Glue catalog: on its versions rests that no commit to a table is lost."""

from typing import Any

from tests.contract.conftest import Aws
from tests.contract.refusals import code_of
from tests.fidelity.rule import NOT_ASKED, Repair, Rules

RULES = Rules()


def catalog(aws: Aws) -> Any:
    """Glue with the database `lake`."""
    glue = aws.client("glue")
    glue.create_database(DatabaseInput={"Name": "lake"})
    return glue


def with_table(aws: Aws) -> Any:
    """Glue with the table `lake.flights`."""
    glue = catalog(aws)
    glue.create_table(DatabaseName="lake", TableInput=table("old"))
    return glue


def table(location: str) -> Any:
    return {"Name": "flights", "Parameters": {"metadata_location": location}}


def found(glue: Any) -> Any:
    return glue.get_table(DatabaseName="lake", Name="flights")["Table"]


def update(glue: Any, location: str, **more: Any) -> str:
    return code_of(
        lambda: glue.update_table(DatabaseName="lake", TableInput=table(location), **more)
    )


@RULES.add("new", "API_UpdateTable")
def update_of_the_current_version(aws: Aws) -> str:
    glue = with_table(aws)
    update(glue, "new", VersionId=found(glue)["VersionId"])
    return str(found(glue)["Parameters"]["metadata_location"])


@RULES.add(
    "ConcurrentModificationException, new",
    "API_UpdateTable",
    repair=Repair("glue.versions", "ok, newer"),
)
def update_of_an_older_version(aws: Aws) -> str:
    glue = with_table(aws)
    version = found(glue)["VersionId"]
    update(glue, "new", VersionId=version)
    code = update(glue, "newer", VersionId=version)
    return f"{code}, {found(glue)['Parameters']['metadata_location']}"


@RULES.add(
    "gone",
    "API_UpdateTable",
    fake=NOT_ASKED,
    why="The fake keeps the newest version alone",
    repair=Repair("glue.versions", "kept"),
)
def version_before_an_update_that_skips_the_archive(aws: Aws) -> str:
    glue = with_table(aws)
    update(glue, "new", VersionId=found(glue)["VersionId"], SkipArchive=True)
    versions = glue.get_table_versions(DatabaseName="lake", TableName="flights")["TableVersions"]
    kept = [each["Table"]["Parameters"]["metadata_location"] for each in versions]
    return "kept" if "old" in kept else "gone"


@RULES.add("AlreadyExistsException", "API_CreateTable")
def creation_of_a_table_that_is_there(aws: Aws) -> str:
    glue = with_table(aws)
    return code_of(lambda: glue.create_table(DatabaseName="lake", TableInput=table("new")))


@RULES.add("EntityNotFoundException", "API_CreateTable")
def creation_in_a_missing_database(aws: Aws) -> str:
    glue = aws.client("glue")
    return code_of(lambda: glue.create_table(DatabaseName="lake", TableInput=table("new")))


@RULES.add("EntityNotFoundException", "API_GetTable")
def read_of_a_missing_table(aws: Aws) -> str:
    glue = catalog(aws)
    return code_of(lambda: glue.get_table(DatabaseName="lake", Name="flights"))
