"""Counts which branches of `longhaul/` and of the engines run.

Python gets the modules' source with a counter in each branch when it imports them: both sides of a
condition, each case, each handler of an error, each function. So this has to be installed before
anything of the product is imported. A tool that counts lines would miss a fifth of the branches:
those within an expression, such as the conditions of a comprehension.
"""

import ast
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from simulation.tools.changed_imports import change_imports

ROOT = Path(__file__).resolve().parents[3]
_PACKAGES = ("longhaul",)
# The simulation has its own in their places.
_REPLACED = frozenset(
    f"longhaul/{name}.py"
    for name in ("adapters/background", "adapters/clock", "adapters/emf", "memory", "ports")
)
_TEST, _REACHED = "__longhaul_test__", "__longhaul_reached__"


class Branch(NamedTuple):
    file: str
    line: int
    code: str  # its head, on one line
    way: str  # such as `never true`, when it was not taken

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.way}: {self.code}"


class Branches:
    """All branches of the modules that were imported, and how often each was taken."""

    def __init__(self) -> None:
        self.all: list[Branch] = []
        self.taken: Counter[int] = Counter()

    def install(self) -> None:
        """Count in every module of the product that is imported from now on.

        Raises:
            RuntimeError: one is loaded already.
        """
        change_imports(_is_product, self._counted, {_TEST: self.test, _REACHED: self.reached})

    def _counted(self, path: Path) -> ast.Module:
        code = ast.parse(path.read_bytes())
        file = str(path.relative_to(ROOT))
        if file not in _REPLACED:
            _Counted(file, self).visit(code)
        return code

    def add(self, branch: Branch) -> int:
        self.all.append(branch)
        return len(self.all) - 1

    def test(self, number: int, value: object) -> object:
        """Stands around a condition: `number` is its true side, the next one the other."""
        self.taken[number if value else number + 1] += 1
        return value

    def reached(self, number: int) -> None:
        self.taken[number] += 1

    def missed(self) -> list[Branch]:
        return [branch for number, branch in enumerate(self.all) if not self.taken[number]]


class _Counted(ast.NodeTransformer):
    def __init__(self, file: str, branches: Branches) -> None:
        self._file = file
        self._branches = branches

    def _conditional(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        node.test = self._tested(node.test)  # type: ignore[attr-defined]  # these have one
        return node

    visit_While = visit_IfExp = _conditional  # noqa: N815 - ast's names

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.ifs = [self._tested(each) for each in node.ifs]
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        pattern = ast.unparse(node.pattern)
        self.generic_visit(node)
        self._count(node.body, node.pattern.lineno, f"case {pattern}", "not reached")
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        head = ast.unparse(node.type) if node.type else ""
        self.generic_visit(node)
        self._count(node.body, node.lineno, f"except {head}", "not reached")
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        is_for_types = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return node if is_for_types else self._conditional(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        self._count(node.body, node.lineno, f"def {node.name}", "not called")
        return node

    def _tested(self, test: ast.expr) -> ast.expr:
        code = ast.unparse(_plain(test)).partition("\n")[0]
        number = self._branches.add(Branch(self._file, test.lineno, code, "never true"))
        self._branches.add(Branch(self._file, test.lineno, code, "never false"))
        call = ast.Call(ast.Name(_TEST, ast.Load()), [ast.Constant(number), test], [])
        return ast.fix_missing_locations(ast.copy_location(call, test))

    def _count(self, body: list[ast.stmt], line: int, code: str, way: str) -> None:
        number = self._branches.add(Branch(self._file, line, code, way))
        call = ast.Call(ast.Name(_REACHED, ast.Load()), [ast.Constant(number)], [])
        counter = ast.copy_location(ast.Expr(call), body[0])
        is_text = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        body.insert(1 if is_text else 0, ast.fix_missing_locations(counter))


def _is_product(module: str) -> bool:
    """Runners are of the jobs, whose branches are not counted."""
    return module.partition(".")[0] in _PACKAGES and not module.endswith(".runner")


def _plain(node: ast.expr) -> ast.expr:
    """The code as it was before counters were put inside."""

    class Plain(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.AST:
            self.generic_visit(node)
            is_ours = isinstance(node.func, ast.Name) and node.func.id == _TEST
            return node.args[1] if is_ours else node

    plain: ast.expr = Plain().visit(ast.parse(ast.unparse(node), mode="eval")).body
    return plain
