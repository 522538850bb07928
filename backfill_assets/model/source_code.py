from __future__ import annotations

import ast
import builtins
import linecache
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
ABSENT = object()
_MUTATORS = frozenset(
    {"append", "add", "clear", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}
)


@dataclass(frozen=True)
class Project:
    """Packages whose logic is followed; others have releases, and count by name."""

    packages: tuple[str, ...]

    @classmethod
    def around(cls, module: str) -> Project:
        """The package of ``module``; :meth:`owns` adds uninstalled modules beside it."""
        root = module.partition(".")[0]
        return cls(() if root in sys.stdlib_module_names else (_EXAMPLES if root == _OURS else root,))

    def owns(self, module: str) -> bool:
        if any(module == each or module.startswith(f"{each}.") for each in self.packages):
            return True
        return module.partition(".")[0] != _OURS and _is_beside(module)


_OURS, _EXAMPLES = "backfill_assets", "backfill_assets.examples"
_PACKAGES = frozenset({"site-packages", "dist-packages"})


@cache
def _installed() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple(str(Path(sysconfig.get_path(name)).resolve()) for name in names)


@cache
def _is_beside(module: str) -> bool:
    file = getattr(sys.modules.get(module), "__file__", None)
    if not file or module.partition(".")[0] in sys.stdlib_module_names:
        return False
    path = Path(file).resolve()
    return not (str(path).startswith(_installed()) or _PACKAGES.intersection(path.parts))


@dataclass(frozen=True)
class ModuleSource:
    name: str
    tree: ast.Module

    @property
    def file(self) -> str:
        return f"{self.name.replace('.', '/')}.py"

    @property
    def package(self) -> str:
        return self.name if hasattr(sys.modules.get(self.name), "__path__") else self.name.rpartition(".")[0]

    @cached_property
    def functions(self) -> dict[int, list[FunctionNode]]:
        """By line of the first decorator, like code objects."""
        found: dict[int, list[FunctionNode]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, FunctionNode):
                decorators = getattr(node, "decorator_list", ())
                first = min([node.lineno, *(each.lineno for each in decorators)])
                found.setdefault(first, []).append(node)
        return found

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        return dict(_classes_in(self.tree.body, ""))

    @cached_property
    def assigned(self) -> dict[str, ast.expr]:
        found: dict[str, ast.expr] = {}
        for node in _top_level(self.tree.body):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            value = getattr(node, "value", None)
            if isinstance(node, ast.Assign | ast.AnnAssign) and value is not None:
                found |= {each.id: value for each in targets if isinstance(each, ast.Name)}
        return found

    @cached_property
    def imported(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for node in _top_level(self.tree.body):
            if isinstance(node, ast.Import | ast.ImportFrom):
                found |= names_imported(node, self.package)
        return found

    @cached_property
    def changed(self) -> frozenset[str]:
        bodies = (node for nodes in self.functions.values() for node in nodes)
        return frozenset(name for body in bodies for name in _changed_in(body))

    def function(self, code: CodeType) -> FunctionNode | None:
        named = [node for node in self.functions.get(code.co_firstlineno, ()) if _name(node) == code.co_name]
        if len(named) < 2:
            return named[0] if named else None
        # Several lambdas on a line: the smallest that encloses all positions of the code.
        places = [(line, first) for line, _, first, last in code.co_positions() if line and first is not None and last]
        around = [node for node in named if all(_encloses(node, each) for each in places)]
        return min(around, key=lambda node: ((node.end_lineno or 0) - node.lineno, _width(node)), default=None)


@cache
def module_source(name: str) -> ModuleSource | None:
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    lines = linecache.getlines(file, vars(module)) if module and file and file.endswith(".py") else []
    return ModuleSource(name, ast.parse("".join(lines))) if lines else None


def names_imported(node: ast.Import | ast.ImportFrom, package: str) -> dict[str, str]:
    """By bound name; ``package`` resolves relative imports."""
    if isinstance(node, ast.Import):
        return {
            each.asname or each.name.partition(".")[0]: each.name if each.asname else each.name.partition(".")[0]
            for each in node.names
        }
    above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    module = ".".join([*above, *([node.module] if node.module else [])])
    return {each.asname or each.name: f"{module}.{each.name}" for each in node.names if each.name != "*"}


def resolve(path: str, project: Project) -> Any:
    module, _, name = path.rpartition(".")
    if path in sys.modules:
        return sys.modules[path]
    if module and module not in sys.modules and project.owns(module):
        __import__(module)
    return getattr(sys.modules[module], name, ABSENT) if module in sys.modules else ABSENT


def names_around(function: FunctionType) -> Callable[[str], Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    enclosed = dict(cells)

    def find(name: str) -> Any:
        if name in enclosed:
            try:
                return enclosed[name].cell_contents
            except ValueError:
                return ABSENT
        return function.__globals__.get(name, getattr(builtins, name, ABSENT))

    return find


def bound_names(node: ast.AST) -> dict[str, None]:
    """In order, without ``global`` and ``nonlocal`` ones."""
    found: dict[str, None] = {}
    if isinstance(node, FunctionNode):
        found |= dict.fromkeys(each.arg for each in arguments(node))
    outside: set[str] = set()
    for each in _own_nodes(node):
        found |= dict.fromkeys(_binds(each))
        if isinstance(each, ast.Global | ast.Nonlocal):
            outside.update(each.names)
    return {name: None for name in found if name not in outside}


def arguments(node: FunctionNode) -> Iterator[ast.arg]:
    given = node.args
    yield from (*given.posonlyargs, *given.args, *given.kwonlyargs)
    yield from (each for each in (given.vararg, given.kwarg) if each)


_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
SCOPES = FunctionNode | _COMPREHENSIONS | ast.ClassDef


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Without inner scopes, except names that ``:=`` binds in a comprehension."""
    for child in ast.iter_child_nodes(node):
        yield child
        if isinstance(child, _COMPREHENSIONS):
            yield from (each.target for each in ast.walk(child) if isinstance(each, ast.NamedExpr))
        elif not isinstance(child, SCOPES):
            yield from _own_nodes(child)


def _binds(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Name):
        return [] if isinstance(node.ctx, ast.Load) else [node.id]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return list(names_imported(node, ""))
    named = getattr(node, "rest", None) if isinstance(node, ast.MatchMapping) else getattr(node, "name", None)
    return (
        [named]
        if named and isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar | ast.MatchMapping)
        else []
    )


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        for part in ("body", "orelse", "finalbody"):
            if isinstance(node, ast.If | ast.Try):
                yield from _top_level(getattr(node, part, []))


def _classes_in(body: list[ast.stmt], within: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for node in _top_level(body):
        if isinstance(node, ast.ClassDef):
            yield f"{within}{node.name}", node
            yield from _classes_in(node.body, f"{within}{node.name}.")


def _changed_in(function: FunctionNode) -> Iterator[str]:
    own = bound_names(function)
    for node in _own_nodes(function):
        base: ast.AST | None = None
        if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            base = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATORS:
            base = node.func.value
        elif isinstance(node, ast.Global):
            yield from node.names
        if isinstance(base, ast.Name) and base.id not in own:
            yield base.id


def _name(node: FunctionNode) -> str:
    return "<lambda>" if isinstance(node, ast.Lambda) else node.name


def _encloses(node: FunctionNode, place: tuple[int, int]) -> bool:
    return (node.lineno, node.col_offset) <= place <= (node.end_lineno or 0, node.end_col_offset or 0)


def _width(node: FunctionNode) -> int:
    return (node.end_col_offset or 0) - node.col_offset


Namespace = Callable[[str], Any]


def module_names(module: str) -> Namespace:
    names: Mapping[str, Any] = vars(sys.modules[module])
    return lambda name: names.get(name, getattr(builtins, name, ABSENT))
