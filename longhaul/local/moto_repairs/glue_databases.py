"""A template can make databases of the Glue catalog.

AWS: `AWS::Glue::Database` makes a database, and `Ref` gives its name.

Stock moto: CloudFormation does not know the type.
"""
# ruff: noqa: ANN401 - moto's insides, which have no types worth naming

from typing import Any

from moto.glue.models import glue_backends

from longhaul.local.moto_repairs.patching import Patches, TemplateResource


def apply(patches: Patches) -> None:
    patches.add_types((TemplateDatabase.TYPE,), TemplateDatabase)


class TemplateDatabase(TemplateResource):
    """The backend makes the database itself: a copy of moto's class would not be the one listed."""

    TYPE = "AWS::Glue::Database"
    NAME = "DatabaseName"

    def __init__(self, name: str) -> None:
        self.name = name

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
        return cls(backend.create_database(asked.get("Name", resource_name), asked).name)
