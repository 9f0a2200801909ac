"""Applies repairs to moto, and undoes them."""

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from moto.cloudformation import parsing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

ABSENT = object()


class TemplateResource:
    """What moto's CloudFormation asks of a resource, apart from how it is made.

    Not moto's own `CloudFormationModel`: moto would find its subclasses even without a repair.
    """

    TYPE: ClassVar[str]
    NAME: ClassVar = "Name"
    ATTRIBUTES: ClassVar[dict[str, str]] = {}
    """By the attribute of a template, the one here."""
    REFERENCE: ClassVar = "name"

    @classmethod
    def cloudformation_name_type(cls) -> str:
        return cls.NAME

    @classmethod
    def cloudformation_type(cls) -> str:
        return cls.TYPE

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        return attr in cls.ATTRIBUTES

    def get_cfn_attribute(self, attribute_name: str) -> str:
        return str(getattr(self, self.ATTRIBUTES[attribute_name]))

    def is_created(self) -> bool:
        return True

    @property
    def physical_resource_id(self) -> str:
        return str(getattr(self, self.REFERENCE))


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

    def replace_item(self, mapping: Any, key: str, value: object) -> None:  # noqa: ANN401 - moto's mappings are typed dictionaries
        """Set an entry of a mapping until `undo`."""
        before = mapping.get(key, ABSENT)
        mapping[key] = value
        self._undo.append(
            partial(mapping.pop, key)
            if before is ABSENT
            else partial(mapping.__setitem__, key, before)
        )

    def add_types(self, types: "Collection[str]", made_by: Any) -> None:  # noqa: ANN401 - one of moto's classes
        """Until `undo`, templates may have resources of these types, which that class makes."""
        stock = parsing.resource_class_from_type

        def resource_class_from_type(resource_type: str) -> Any:  # noqa: ANN401 - as above
            return made_by if resource_type in types else stock(resource_type)

        self.replace(parsing, "resource_class_from_type", resource_class_from_type)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()
