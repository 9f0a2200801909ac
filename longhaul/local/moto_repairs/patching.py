"""Applies repairs to moto, and undoes them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from moto.cloudformation import parsing

ABSENT = object()

F = TypeVar("F", bound=Callable[..., Any])


class Made:
    """What moto's CloudFormation asks of a resource of a template."""

    def __init__(self, kind: str, reference: str, **attributes: str) -> None:
        self.type = kind
        self.physical_resource_id = reference
        self._attributes = attributes

    def is_created(self) -> bool:
        return True

    def get_cfn_attribute(self, name: str) -> str:
        return self._attributes[name]


Make = Callable[[str, dict[str, Any], str, str], Made]
"""Makes a resource, by its name, its properties, the account and the region."""


class _Type:
    """What moto's CloudFormation asks of a class of resources.

    Not moto's own `CloudFormationModel`: moto would find its subclasses even without a repair.
    """

    def __init__(self, make: Make) -> None:
        self._make = make

    def has_cfn_attr(self, _: str) -> bool:
        return True

    def create_from_cloudformation_json(
        self, name: str, template: dict[str, Any], account: str, region: str, **_: object
    ) -> Made:
        return self._make(name, template["Properties"], account, region)


class Patches:
    """Replaced attributes of moto.

    moto keeps its code in modules and classes, so a repair replaces attributes. All of them are
    restored when the embedded AWS stops, for other users of moto in the same process.
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def replace(self, owner: object, name: str, value: object) -> None:
        """Set `owner.name` until `undo`.

        The old value is read from the owner's own dictionary: static methods and properties are
        restored as such.
        """
        before = vars(owner).get(name, ABSENT)
        setattr(owner, name, value)
        self._undo.append(
            partial(delattr, owner, name)
            if before is ABSENT
            else partial(setattr, owner, name, before)
        )

    def replacing(self, owner: object, name: str) -> Callable[[F], F]:
        """Decorate the function that takes the place of `owner.name` until `undo`."""

        def put(function: F) -> F:
            self.replace(owner, name, function)
            return function

        return put

    def complete(self, owner: Any, change: Callable[[Any, Mapping[str, Any]], None]) -> None:  # noqa: ANN401 - a class of moto's
        """Until `undo`, `change` gets each resource that a template makes, with its properties."""
        stock = owner.create_from_cloudformation_json

        def create(_cls: type, name: str, template: Any, *args: Any, **named: Any) -> Any:  # noqa: ANN401 - moto's
            made = stock(name, template, *args, **named)
            change(made, template.get("Properties", {}))
            return made

        self.replace(owner, "create_from_cloudformation_json", classmethod(create))

    def replace_item(self, mapping: Any, key: str, value: object) -> None:  # noqa: ANN401 - moto's mappings are typed dictionaries
        """Set an entry of a mapping until `undo`."""
        before = mapping.get(key, ABSENT)
        mapping[key] = value
        self._undo.append(
            partial(mapping.pop, key)
            if before is ABSENT
            else partial(mapping.__setitem__, key, before)
        )

    def add_type(self, kind: str, make: Make) -> None:
        """Until `undo`, templates may have resources of this type."""
        stock = parsing.resource_class_from_type

        def resource_class_from_type(resource_type: str) -> Any:  # noqa: ANN401 - one of moto's
            return _Type(make) if resource_type == kind else stock(resource_type)

        self.replace(parsing, "resource_class_from_type", resource_class_from_type)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()
