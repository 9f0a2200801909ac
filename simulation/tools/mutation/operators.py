"""Small changes of code, each of which a test or a world should notice.

Comparisons, boolean operators, arithmetic, constants, returns, and what is left out: a condition, a
statement, an element, an argument. Left alone are what only people read (log lines, docstrings, the
texts of errors, annotations) and what has no effect that a test could see (`__slots__`, `cast`).
"""

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

T = TypeVar("T")

_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_BOUNDARY: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}
_OTHER_CALL = {"min": "max", "max": "min", "any": "all", "all": "any"}
_FOR_PEOPLE = {"logger", "about", "cast", "TypeVar", "getLogger"}


@dataclass(frozen=True)
class Mutation:
    """One change; `number` counts those of the same text in the same scope.

    Attributes:
        scope: The qualified name of the outermost function; empty for the module's own code.
        around: The code of that function, or of the statement: a change belongs to it wherever it
            stands in its file.
        old: The changed node's code, as `ast.unparse` writes it; `new` after the change.
    """

    number: int
    line: int
    statement: int  # the line of the statement around it
    scope: str
    around: str
    code: str  # the line as it stands in the file
    equal_line: int  # which of the file's lines with this text, from 1
    what: str
    old: str
    new: str
    make: Callable[[], ast.Module]


def mutations(source: str) -> Iterator[Mutation]:
    """All changes of a module, each on a copy of its tree."""
    tree, lines = ast.parse(source), [line.strip() for line in source.splitlines()]
    functions = dict(_functions(tree, ""))
    numbers: Counter[tuple[str, str]] = Counter()
    for path, scope in _sites(tree, "", in_function=False):
        node = _at(tree, path)
        statement = _statement(tree, path)
        around = functions[scope] if scope else ast.unparse(statement)
        line = getattr(node, "lineno", statement.lineno)
        for what, new in _changes(node):
            make = partial(_changed, tree, path, new)
            texts = _text(node), _text(new)
            number = numbers[scope, around]
            code = lines[line - 1], lines[:line].count(lines[line - 1])
            place = (number, line, statement.lineno, scope, around, *code)
            yield Mutation(*place, what, *texts, make)
            numbers[scope, around] += 1


def _functions(node: ast.AST, scope: str) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.ClassDef(name=name):
                yield from _functions(child, f"{scope}.{name}" if scope else name)
            case ast.FunctionDef(name=name):
                yield f"{scope}.{name}" if scope else name, ast.unparse(child)


def _changed(tree: ast.Module, path: "_Path", new: ast.AST) -> ast.Module:
    """The tree with another node at this place; all that is not above it is shared."""
    old, new = _at(tree, path), copy.deepcopy(new)
    if not isinstance(new, ast.match_case):
        ast.copy_location(new, old)
    changed = copy.copy(tree)
    parent: ast.AST = changed
    for depth, (name, index) in enumerate(path, 1):
        child = new if depth == len(path) else copy.copy(_at(tree, path[:depth]))
        if index is None:
            setattr(parent, name, child)
        else:
            siblings = getattr(parent, name)
            setattr(parent, name, [*siblings[:index], child, *siblings[index + 1 :]])
        parent = child
    ast.fix_missing_locations(new)
    return changed


def _statement(tree: ast.Module, path: "_Path") -> ast.stmt:
    return next(
        node
        for end in range(len(path), 0, -1)
        if isinstance(node := _at(tree, path[:end]), ast.stmt)
    )


_Path = tuple[tuple[str, int | None], ...]


def _sites(
    node: ast.AST, scope: str, *, in_function: bool, path: _Path = ()
) -> Iterator[tuple[_Path, str]]:
    """Every node whose change could be seen, by its place in the tree."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "type_comment", "ctx"):
            continue
        # Defaults are computed where the function is defined.
        in_code = in_function and not (name == "args" and isinstance(node, ast.FunctionDef))
        children = value if isinstance(value, list) else [value]
        for index, child in enumerate(children):
            if not isinstance(child, ast.AST) or _is_for_people(child):
                continue
            place = (*path, (name, index if isinstance(value, list) else None))
            inner, inside = scope, in_code
            if not in_code and isinstance(child, ast.ClassDef | ast.FunctionDef):
                inner = f"{scope}.{child.name}" if scope else child.name
                inside = isinstance(child, ast.FunctionDef)
            if isinstance(child, ast.expr | ast.stmt | ast.match_case):
                yield place, inner if inside else ""
            yield from _sites(child, inner, in_function=inside, path=place)


def _is_for_people(node: ast.AST) -> bool:
    match node:
        case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.Expr(value=ast.Constant()) | ast.AnnAssign(value=None) | ast.Global():
            return True
        case ast.Subscript(value=ast.Name(id="Literal" | "Mapping" | "Sequence")):
            return True
        case ast.Expr(value=ast.Call(func=func)) | ast.Call(func=func):
            return bool(_names_in(func) & _FOR_PEOPLE)
    return False


def _names_in(func: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(func) if isinstance(each, ast.Name)} | {
        each.attr for each in ast.walk(func) if isinstance(each, ast.Attribute)
    }


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for kind in (_of_conditions, _of_operators, _of_constants, _of_statements, _of_lists):
        yield from kind(node)


def _of_conditions(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Compare(ops=[op]):
            yield "comparison negated", _with(node, ops=[_NEGATED[type(op)]()])
            if type(op) in _BOUNDARY:
                yield "boundary moved", _with(node, ops=[_BOUNDARY[type(op)]()])
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "and for or", _with(node, op=other)
            for index in range(len(values)):
                left = _without(values, index)
                yield "operand left out", left[0] if len(left) == 1 else _with(node, values=left)
        case ast.If(test=test) if not isinstance(test, ast.Compare | ast.BoolOp):
            yield "always true", _with(node, test=ast.Constant(True))
            yield "never true", _with(node, test=ast.Constant(False))
        case ast.IfExp(body=body, orelse=orelse):
            yield "always the first", body
            yield "always the second", orelse
        case ast.match_case(guard=ast.expr()):
            yield "guard left out", _with(node, guard=None)


def _of_operators(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not left out", operand
        case ast.BinOp(op=op, left=left) if type(op) in _ARITHMETIC:
            yield "other operator", _with(node, op=_ARITHMETIC[type(op)]())
            yield "right side left out", left
        case ast.Call(func=ast.Name(id=name)) if name in _OTHER_CALL:
            yield "other function", _with(node, func=ast.Name(_OTHER_CALL[name], ast.Load()))


def _of_constants(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Constant(value=bool(value)):
            yield "other constant", ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield "constant one more", ast.Constant(value + 1)
            yield "constant one less", ast.Constant(value - 1)
        case ast.Constant(value=str(value)) if value.isidentifier():
            yield "other text", ast.Constant(value + "_")


def _of_statements(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Return(value=ast.expr() as value) if not _is_nothing(value):
            yield "returns None", _with(node, value=ast.Constant(None))
        case ast.Return() | ast.Continue() | ast.Break() | ast.Expr() | ast.AugAssign():
            yield "statement left out", ast.Pass()


def _of_lists(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Call(keywords=keywords):
            for index, keyword in enumerate(keywords):
                if keyword.arg is not None:
                    yield "argument left out", _with(node, keywords=_without(keywords, index))
        case ast.Tuple(elts=elements, ctx=ast.Load()) | ast.List(elts=elements, ctx=ast.Load()):
            for index in range(len(elements)):
                yield "element left out", _with(node, elts=_without(elements, index))


def _without(items: list[T], index: int) -> list[T]:
    return items[:index] + items[index + 1 :]


def _is_nothing(node: ast.expr) -> bool:
    """None, or False: who asks a question takes both for no."""
    return isinstance(node, ast.Constant) and (node.value is None or node.value is False)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    """A copy of the node with other fields."""
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _at(tree: ast.AST, path: _Path) -> ast.AST:
    node: ast.AST = tree
    for name, index in path:
        value = getattr(node, name)
        node = value if index is None else value[index]
    return node


def _text(node: ast.AST) -> str:
    """Code on one line; of a compound statement only its head."""
    lines = ast.unparse(node).splitlines()
    return lines[0] if lines else ""
