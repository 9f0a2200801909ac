"""How a repair gets into moto and out again."""

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ABSENT = object()


class Patches:
    """Attributes replaced in moto, and the way back.

    moto keeps its state and code in modules and classes, so a repair is a replaced attribute. All of them are undone when the embedded AWS stops: whoever
    uses moto afterwards in the same process finds it as it was shipped.
    """

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def replace(self, owner: object, name: str, value: object) -> None:
        """Set `owner.name` until `undo`. What was there is read from the owner itself, so that static methods and properties come back as they were."""
        before = vars(owner).get(name, ABSENT)
        setattr(owner, name, value)
        self._undo.append(partial(delattr, owner, name) if before is ABSENT else partial(setattr, owner, name, before))

    def replace_item(self, mapping: Any, key: str, value: object) -> None:  # noqa: ANN401 - moto's mappings are typed dictionaries
        """The same for an entry of a mapping."""
        before = mapping.get(key, ABSENT)
        mapping[key] = value
        self._undo.append(partial(mapping.pop, key) if before is ABSENT else partial(mapping.__setitem__, key, before))

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()
