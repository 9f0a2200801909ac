"""Puts a mutation into the running process: the code of one function is replaced.

Imported names, instances and closures go on using the same function object, so nothing has to be
loaded again, and a forked process can try a mutation in milliseconds.
"""

import ast
import importlib
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from simulation.tools.mutation.operators import Mutation

PRODUCT: Final = ("longhaul",)
"""The packages of what is changed and of what uses it."""

Undo = Callable[[], None]


class NotAppliedError(Exception):
    """The changed code ran when the module was loaded, as a class body or a default did."""


def apply(mutation: Mutation, file: str, module_name: str) -> Undo:
    """Let this process run the mutation until what is returned is called.

    Raises:
        NotAppliedError: it is not in a function, nor in a constant of the module.
    """
    module = importlib.import_module(module_name)
    if not mutation.scope:
        return _assign_constant(mutation, module)
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
    before = function.__code__
    function.__code__ = found[0]
    return partial(setattr, function, "__code__", before)


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


def assigned_by(mutation: Mutation) -> str | None:
    """The constant of the module that the changed statement assigns."""
    match ast.parse(mutation.around).body:
        case [ast.Assign(targets=[ast.Name(id=name)])]:
            return name
        case [ast.AnnAssign(target=ast.Name(id=name), value=ast.expr())]:
            return name
    return None


def _assign_constant(mutation: Mutation, module: ModuleType) -> Undo:
    """Assign a module's constant again, wherever it was imported."""
    name = assigned_by(mutation)
    values = [
        each.value
        for each in mutation.make().body
        if isinstance(each, ast.Assign | ast.AnnAssign)
        and each.lineno == mutation.statement
        and each.value is not None
    ]
    if name is None or not values:
        raise NotAppliedError("a class or a default")
    before = vars(module)[name]
    users = [each for each in list(sys.modules.values()) if vars(each).get(name) is before]
    if any(name in _names_at_load(each) for each in users):
        raise NotAppliedError("what was made of it when a module was loaded stays")
    after = eval(compile(ast.Expression(values[0]), module.__name__, "eval"), vars(module))  # noqa: S307 - our own code

    def assign(value: object) -> None:
        for each in users:
            setattr(each, name, value)

    assign(after)
    return partial(assign, before)


@cache
def _names_at_load(module: ModuleType) -> frozenset[str]:
    """Names that a module's code reads outside of functions, as class bodies and defaults do."""
    file = getattr(module, "__file__", None) or ""
    if not any(f"/{package}/" in file for package in PRODUCT):
        return frozenset()
    names: set[str] = set()
    left: list[ast.AST] = [ast.parse(Path(file).read_text())]
    while left:
        node = left.pop()
        if isinstance(node, ast.FunctionDef):
            left += [
                *node.decorator_list,
                *node.args.defaults,
                *filter(None, node.args.kw_defaults),
            ]
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.add(node.id)
        left += ast.iter_child_nodes(node)
    return frozenset(names)
