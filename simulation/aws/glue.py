"""Glue's catalog in memory: databases, and tables of which each update makes a version."""

from copy import deepcopy
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from simulation.aws.service import Answer, Gate, RefusedError, Service, known, operation

if TYPE_CHECKING:
    from collections.abc import Callable

_NOT_FOUND = "EntityNotFoundException"
_EXISTS = "AlreadyExistsException"


class FakeGlue(Service):
    service = "glue"
    exceptions = SimpleNamespace(
        **{
            code: type(code, (ClientError,), {})
            for code in (
                *(_NOT_FOUND, _EXISTS, "ConcurrentModificationException"),
                "InvalidInputException",
            )
        }
    )

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.databases: dict[str, Answer] = {}
        self.tables: dict[tuple[str, str], list[Answer]] = {}  # the versions that are kept
        # Called before a table is read or updated: others may have changed it by then.
        self.meanwhile: Callable[[str, str], None] = lambda _database, _name: None
        self.changed: list[Callable[[str, str], None]] = []  # called after each change of a table

    @operation
    def create_database(self, *, DatabaseInput: Answer) -> Answer:
        if DatabaseInput["Name"] in self.databases:
            raise RefusedError(_EXISTS, "Database already exists.")
        self.databases[DatabaseInput["Name"]] = DatabaseInput
        return {}

    @operation
    def get_database(self, *, Name: str) -> Answer:
        return {"Database": self._database(Name)}

    @operation
    def create_table(self, *, DatabaseName: str, TableInput: Answer) -> Answer:
        self._database(DatabaseName)
        if (DatabaseName, TableInput["Name"]) in self.tables:
            raise RefusedError(_EXISTS, "Table already exists.")
        table = {**TableInput, "DatabaseName": DatabaseName, "VersionId": "0"}
        self.tables[DatabaseName, TableInput["Name"]] = [table]
        self._tell(DatabaseName, TableInput["Name"])
        return {}

    @operation
    def get_table(self, *, DatabaseName: str, Name: str) -> Answer:
        self.meanwhile(DatabaseName, Name)
        # A copy: pyiceberg makes the next version of what it gets.
        return {"Table": deepcopy(self._versions(DatabaseName, Name)[-1])}

    @operation
    def get_table_versions(self, *, DatabaseName: str, TableName: str) -> Answer:
        versions = self._versions(DatabaseName, TableName)
        return {
            "TableVersions": [
                {"Table": each, "VersionId": each["VersionId"]} for each in reversed(versions)
            ]
        }

    @operation
    def update_table(
        self,
        *,
        DatabaseName: str,
        TableInput: Answer,
        VersionId: str | None = None,
        SkipArchive: bool = False,
    ) -> Answer:
        self.meanwhile(DatabaseName, TableInput["Name"])
        versions = self._versions(DatabaseName, TableInput["Name"])
        current = versions[-1]["VersionId"]
        if VersionId not in (None, current):
            raise RefusedError(
                "ConcurrentModificationException",
                "Update table failed due to concurrent modifications.",
            )
        if SkipArchive:
            versions.pop()
        number = str(int(current) + 1)
        versions.append({**TableInput, "DatabaseName": DatabaseName, "VersionId": number})
        self._tell(DatabaseName, TableInput["Name"])
        return {}

    def _tell(self, database: str, name: str) -> None:
        for heard in self.changed:
            heard(database, name)

    def _database(self, name: str) -> Answer:
        return known(self.databases, name, _NOT_FOUND, f"Database {name} not found.")

    def _versions(self, database: str, name: str) -> list[Any]:
        self._database(database)
        return known(self.tables, (database, name), _NOT_FOUND, f"Table {name} not found.")
