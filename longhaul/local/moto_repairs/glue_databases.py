"""A template can make databases of the Glue catalog.

AWS: `AWS::Glue::Database` makes a database, and `Ref` gives its name.

Stock moto: CloudFormation does not know the type.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from typing import Any

from moto.glue.models import FakeDatabase, glue_backends

from longhaul.local.moto_repairs.patching import Patches

TYPE = "AWS::Glue::Database"


def apply(patches: Patches) -> None:
    patches.add_types((TYPE,), TemplateDatabase)


class TemplateDatabase:
    """It does not inherit from `CloudFormationModel`: moto would find it even without the repair.

    The backend makes the database itself: a copy of moto's class would not be the one listed.
    """

    def __init__(self, database: FakeDatabase) -> None:
        self._database = database

    @staticmethod
    def cloudformation_name_type() -> str:
        return "DatabaseName"

    @staticmethod
    def cloudformation_type() -> str:
        return TYPE

    @classmethod
    def create_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: Any,
        account_id: str,
        region_name: str,
        **_kwargs: Any,
    ) -> "TemplateDatabase":
        asked = cloudformation_json["Properties"]["DatabaseInput"]
        backend = glue_backends[account_id][region_name]
        return cls(backend.create_database(asked.get("Name", resource_name), asked))

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:  # noqa: ARG003 - moto's signature
        return False

    def is_created(self) -> bool:
        return True

    @property
    def physical_resource_id(self) -> str:
        return str(self._database.name)
