"""Glue's catalog in memory: databases, and the newest version of each table."""

from copy import deepcopy
from types import SimpleNamespace
from typing import TYPE_CHECKING

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
        self.tables: dict[tuple[str, str], Answer] = {}
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
        return self._put(DatabaseName, TableInput, "0")

    @operation
    def get_table(self, *, DatabaseName: str, Name: str) -> Answer:
        self.meanwhile(DatabaseName, Name)
        # A copy: pyiceberg makes the next version of what it gets.
        return {"Table": deepcopy(self._table(DatabaseName, Name))}

    @operation
    def update_table(
        self,
        *,
        DatabaseName: str,
        TableInput: Answer,
        VersionId: str | None = None,
        SkipArchive: bool = False,  # noqa: ARG002 - no older version is kept
    ) -> Answer:
        self.meanwhile(DatabaseName, TableInput["Name"])
        current = self._table(DatabaseName, TableInput["Name"])["VersionId"]
        if VersionId not in (None, current):
            raise RefusedError(
                "ConcurrentModificationException",
                "Update table failed due to concurrent modifications.",
            )
        return self._put(DatabaseName, TableInput, str(int(current) + 1))

    def _put(self, database: str, table: Answer, version: str) -> Answer:
        place = database, table["Name"]
        self.tables[place] = {**table, "DatabaseName": database, "VersionId": version}
        for heard in self.changed:
            heard(*place)
        return {}

    def _database(self, name: str) -> Answer:
        return known(self.databases, name, _NOT_FOUND, f"Database {name} not found.")

    def _table(self, database: str, name: str) -> Answer:
        self._database(database)
        return known(self.tables, (database, name), _NOT_FOUND, f"Table {name} not found.")
