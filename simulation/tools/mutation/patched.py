"""Puts a mutation into the running process: the code of one function is replaced.

Imported names, instances and closures go on using the same function object, so nothing has to be
loaded again, and a forked process can try a mutation in milliseconds.
"""

import ast
import importlib
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from simulation.tools.mutation.operators import Mutation


class NotAppliedError(Exception):
    """The changed code ran when the module was loaded, as a class body or a default did."""


def apply(mutation: Mutation, file: str, module_name: str) -> None:
    """Let this process run the mutation from now on.

    Raises:
        NotAppliedError: it is not in a function, nor in a constant of the module.
    """
    module = importlib.import_module(module_name)
    if not mutation.scope:
        _assign_constant(mutation, module)
        return
    compiled = compile(mutation.make(), file, "exec")
    function = _function(module, mutation.scope)
    found = [
        code
        for code in _codes(compiled)
        if code.co_qualname == function.__code__.co_qualname
        and code.co_firstlineno == function.__code__.co_firstlineno
    ]
    if len(found) != 1 or found[0].co_freevars != function.__code__.co_freevars:
        raise NotAppliedError(mutation.scope)
    function.__code__ = found[0]


def _function(module: ModuleType, scope: str) -> FunctionType:
    owner: Any = module
    *classes, name = scope.split(".")
    for each in classes:
        owner = vars(owner)[each]
    found = vars(owner).get(name)
    for attribute in ("fget", "func", "__func__", "__wrapped__"):
        inner = getattr(found, attribute, None)
        if inner is not None:
            found = inner
    while hasattr(found, "__wrapped__"):
        found = found.__wrapped__
    if not isinstance(found, FunctionType):
        raise NotAppliedError(scope)
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)


def _assign_constant(mutation: Mutation, module: ModuleType) -> None:
    """Assign a module's constant again, wherever it was imported."""
    original = ast.parse(_source_of(module))
    pairs = zip(original.body, mutation.make().body, strict=True)
    changed = [new for old, new in pairs if ast.dump(old) != ast.dump(new)]
    match changed:
        case [ast.Assign(targets=[ast.Name(id=name)], value=value)]:
            pass
        case [ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)]:
            pass
        case _:
            raise NotAppliedError("a class or a default")
    before = vars(module)[name]
    after = eval(compile(ast.Expression(value), module.__name__, "eval"), vars(module))  # noqa: S307 - our own code
    for each in list(sys.modules.values()):
        if vars(each).get(name) is before:
            setattr(each, name, after)


def _source_of(module: ModuleType) -> str:
    with open(str(module.__file__), encoding="utf-8") as file:  # noqa: PTH123 - a module's own path
        return file.read()
