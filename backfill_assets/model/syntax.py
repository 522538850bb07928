"""Code as text, without comments, format, docstrings, annotations, local names, Python's version."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from backfill_assets.model.source_code import SCOPES, FunctionNode, arguments, bound_names, names_imported

_LEFT_OUT = frozenset({"ctx", "kind", "type_comment", "type_params", "type_ignores", "simple", "annotation", "returns"})


class References(Protocol):
    def name(self, chain: Sequence[str], node: ast.expr) -> str:
        pass

    def imported(self, path: str, chain: Sequence[str], node: ast.expr) -> str:
        pass

    def keywords(self, chain: Sequence[str], imported: str) -> Sequence[str]:
        """A project function's parameters. ``imported``: a function's own import."""

    def declares(self, decorator: ast.expr) -> bool:
        pass

    def called(self, node: ast.Call, texts: Sequence[str]) -> None:
        """Every call, with texts that may be its arguments."""


@dataclass
class _Scope:
    names: dict[str, str | None]
    imports: dict[str, str] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    is_class: bool = False


@dataclass
class SyntaxWriter:
    refers: References
    package: str
    scopes: list[_Scope] = field(default_factory=list)
    _numbered: int = 0

    def function(self, node: FunctionNode) -> str:
        outside = [] if isinstance(node, ast.Lambda) else self._decorators(node)
        defaults = self._all([*node.args.defaults, *(each or ast.Constant(None) for each in node.args.kw_defaults)])
        scope = _scope_of(node, self.package)
        self.scopes.append(scope)
        given = node.args
        shape = f"{len(given.posonlyargs)}/{len(given.args)}/{len(given.kwonlyargs)}"
        stars = f"{'*' if given.vararg else ''}{'**' if given.kwarg else ''}"
        for each in arguments(node):
            self._local(scope, each.arg)
        body = self.write(node.body) if isinstance(node, ast.Lambda) else self._body(node.body)
        self.scopes.pop()
        kind = "Async" if isinstance(node, ast.AsyncFunctionDef) else "Function"
        returns = "Return" if isinstance(node, ast.Lambda) else ""
        return f"{kind}({shape}{stars} {defaults} {outside} {f'{returns}({body})' if returns else body})"

    def class_(self, node: ast.ClassDef) -> str:
        """Without the name; annotations may decide how a value is read."""
        outside = f"{self._decorators(node)}{self._all(node.bases)}{self._all(node.keywords)}"
        names = bound_names(node)
        self.scopes.append(_Scope({name: f".{name}" for name in names}, is_class=True))
        body = "".join(self._member(each) for each in node.body if not _says_nothing(each))
        self.scopes.pop()
        return f"Class({outside} {body})"

    def write(self, node: ast.AST) -> str:
        special = _SPECIAL.get(type(node))
        return special(self, node) if special else self._plain(node)

    # ------------------------------------------------------------------ nodes

    def _plain(self, node: ast.AST) -> str:
        if isinstance(node, SCOPES):  # comprehensions
            return self._within(node)
        fields = ((name, getattr(node, name, None)) for name in node._fields if name not in _LEFT_OUT)
        parts = [f"{name}={self._field(value)}" for name, value in fields if value is not None and value != []]
        return f"{type(node).__name__}({' '.join(parts)})"

    def _within(self, node: ast.AST) -> str:
        self.scopes.append(_scope_of(node, self.package))
        generators = self._all(getattr(node, "generators", []))
        result = [self.write(getattr(node, name)) for name in ("elt", "key", "value") if hasattr(node, name)]
        self.scopes.pop()
        return f"{type(node).__name__}({generators} {' '.join(result)})"

    def _field(self, value: object) -> str:
        if isinstance(value, ast.AST):
            return self.write(value)
        if isinstance(value, list):
            is_body = any(isinstance(each, ast.stmt) for each in value)
            return self._body(value) if is_body else self._all(value)
        return self._bound(value) if isinstance(value, str) else repr(value)

    def _all(self, nodes: Iterable[object]) -> str:
        return f"[{' '.join(self._field(each) for each in nodes)}]"

    def _body(self, statements: Sequence[ast.stmt]) -> str:
        return f"[{' '.join(filter(None, (self.write(each) for each in statements if not _says_nothing(each))))}]"

    def _member(self, node: ast.stmt) -> str:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return f"{node.name}={self.function(node)} "
        if isinstance(node, ast.ClassDef):
            return f"{node.name}={self.class_(node)} "
        typed = f":{self.write(node.annotation)}" if isinstance(node, ast.AnnAssign) else ""
        return f"{self.write(node) or self.write(getattr(node, 'target', node))}{typed} "

    def _decorators(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
        return self._all(each for each in node.decorator_list if not self.refers.declares(each))

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
        written = self.class_(node) if isinstance(node, ast.ClassDef) else self.function(node)
        return f"Define({self._bound(node.name)} {written})"

    def _import(self, node: ast.Import | ast.ImportFrom) -> str:
        if self.scopes:
            self.scopes[-1].imports |= names_imported(node, self.package)
        return ""

    def _annotated(self, node: ast.AnnAssign) -> str:
        if node.value is None:
            return ""
        return f"Assign(targets=[{self.write(node.target)}] value={self.write(node.value)})"

    def _constant(self, node: ast.Constant) -> str:
        return f"{type(node.value).__name__}:{node.value!r}"

    def _joined(self, node: ast.JoinedStr) -> str:
        """Python versions split an f-string differently."""
        parts: list[str] = []
        text = ""
        for each in node.values:
            if isinstance(each, ast.Constant):
                text += str(each.value)
                continue
            parts += [repr(text)] * bool(text) + [self.write(each)]
            text = ""
        parts += [repr(text)] * bool(text)
        return f"Joined({' '.join(parts)})"

    def _arg(self, node: ast.arg) -> str:
        return self._bound(node.arg)

    def _named(self, node: ast.Name | ast.Attribute) -> str:
        chain = chain_of(node)
        if not chain:
            return self._plain(node) if isinstance(node, ast.Name) else self._attribute(node)
        for scope in self._visible():
            if chain[0] in scope.imports:
                return self.refers.imported(scope.imports[chain[0]], chain[1:], node)
            if chain[0] in scope.names:
                return ".".join([self._local(scope, chain[0]), *chain[1:]])
        return self.refers.name(chain, node)

    def _attribute(self, node: ast.Attribute) -> str:
        return f"Attribute({self.write(node.value)} {node.attr})"

    def _call(self, node: ast.Call) -> str:
        given = [*node.args, *(each.value for each in node.keywords)]
        self.refers.called(node, [text for each in given for text in self._texts(each)])
        parameters = self._parameters(node.func)
        keywords = " ".join(f"{_keyword(each.arg, parameters)}={self.write(each.value)}" for each in node.keywords)
        return f"Call({self.write(node.func)} {self._all(node.args)} {keywords})"

    def _parameters(self, function: ast.expr) -> Sequence[str]:
        if not (chain := chain_of(function)):
            return ()
        scope = next((each for each in self._visible() if chain[0] in {*each.names, *each.imports}), None)
        if scope and chain[0] not in scope.imports:
            return ()
        return self.refers.keywords(chain, scope.imports[chain[0]] if scope else "")

    def _texts(self, node: ast.expr) -> Iterator[str]:
        yield from _texts_in(node)
        if isinstance(node, ast.Name):
            yield from (text for scope in self._visible() for text in scope.texts.get(node.id, ()))

    # ------------------------------------------------------------------ local names

    def _visible(self) -> Iterator[_Scope]:
        for scope in reversed(self.scopes):
            if not scope.is_class or scope is self.scopes[-1]:
                yield scope

    def _bound(self, name: str) -> str:
        found = next((scope for scope in self._visible() if name in scope.names), None)
        return self._local(found, name) if found else name

    def _local(self, scope: _Scope, name: str) -> str:
        if (known := scope.names[name]) is not None:
            return known
        self._numbered += 1
        scope.names[name] = written = f"${self._numbered}"
        return written


def chain_of(node: ast.expr) -> Sequence[str]:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id, *reversed(parts)) if isinstance(node, ast.Name) else ()


def _scope_of(node: ast.AST, package: str) -> _Scope:
    names = bound_names(node)
    imports: dict[str, str] = {}
    texts: dict[str, list[str]] = {}
    for each in ast.walk(node):
        if isinstance(each, ast.Import | ast.ImportFrom):
            imports |= {name: path for name, path in names_imported(each, package).items() if name in names}
        if isinstance(each, ast.Assign | ast.AnnAssign | ast.AugAssign) and each.value is not None:
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            for target in (target for target in targets if isinstance(target, ast.Name)):
                texts.setdefault(target.id, []).extend(_texts_in(each.value))
    return _Scope(dict.fromkeys(name for name in names if name not in imports), imports, texts)


def _texts_in(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Call):
        yield from _texts_in(node.func.value) if isinstance(node.func, ast.Attribute) else ()
    elif isinstance(node, ast.JoinedStr | ast.BinOp | ast.List | ast.Tuple | ast.IfExp | ast.Starred):
        for each in ast.iter_child_nodes(node):
            yield from _texts_in(each)


def _keyword(name: str | None, parameters: Sequence[str]) -> str:
    return "**" if name is None else f"#{parameters.index(name)}" if name in parameters else name


def _says_nothing(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


_SPECIAL: Mapping[type[ast.AST], Callable[[SyntaxWriter, Any], str]] = {
    ast.FunctionDef: SyntaxWriter._definition,
    ast.AsyncFunctionDef: SyntaxWriter._definition,
    ast.ClassDef: SyntaxWriter._definition,
    ast.Lambda: SyntaxWriter.function,
    ast.Import: SyntaxWriter._import,
    ast.ImportFrom: SyntaxWriter._import,
    ast.AnnAssign: SyntaxWriter._annotated,
    ast.Constant: SyntaxWriter._constant,
    ast.JoinedStr: SyntaxWriter._joined,
    ast.arg: SyntaxWriter._arg,
    ast.Name: SyntaxWriter._named,
    ast.Attribute: SyntaxWriter._named,
    ast.Call: SyntaxWriter._call,
}
