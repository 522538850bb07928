from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.model.source_code import module_source
from backfill_assets.text import suggest_name

_IMPORTS = {
    "T": "from pyspark.sql import types as T",
    "F": "from pyspark.sql import functions as F",
    "DataFrame": "from pyspark.sql import DataFrame",
    "Annotated": "from typing import Annotated",
    "Decimal": "from decimal import Decimal",
    "date": "from datetime import date",
    "datetime": "from datetime import datetime",
    "timedelta": "from datetime import timedelta",
    "Contract": "from backfill_assets.model.contract import Contract",
    "Field": "from backfill_assets.model.contract import Field",
    "LandedDataset": "from backfill_assets.model.landed_dataset import LandedDataset",
    "DerivedDataset": "from backfill_assets.model.derived_dataset import DerivedDataset",
    "ExternalTable": "from backfill_assets.model.external_table import ExternalTable",
    "Reads": "from backfill_assets.model.declaration import Reads",
    "AsOf": "from backfill_assets.model.declaration import AsOf",
}
_TYPES = {
    "str": "T.StringType",
    "int": "T.LongType",
    "float": "T.DoubleType",
    "bool": "T.BooleanType",
    "bytes": "T.BinaryType",
    "date": "T.DateType",
    "datetime": "T.TimestampType",
    "Decimal": "Annotated[T.DecimalType, 18, 2]",
}
_SOME_TYPES = "Types are those of pyspark.sql.types, such as T.StringType, T.LongType, T.DateType and T.TimestampType."
_BESIDE = "Each module beside a dataset is read as one: fix it, or move it to another folder."
_LANDED = ("raw", "bronze", "quarantine")


# ------------------------------------------------------------------ annotations


def is_type(kind: object) -> bool:
    return hasattr(kind, "simpleString") and not isinstance(kind, type)


def wrong_annotations(contract: type, columns: Iterable[str], read: Callable[[Any], object]) -> InvalidRequest | None:
    found = [each for name in columns if (each := _wrong_annotation(contract, name, read))]
    if len(found) > 1:
        lines = "\n".join(f"  {what} {hint}".rstrip() for what, hint in found)
        return InvalidRequest(f"{contract.__name__} is declared wrong in {len(found)} places:\n{lines}")
    return InvalidRequest(found[0][0], hint=found[0][1] or None) if found else None


def _wrong_annotation(contract: type, column: str, read: Callable[[Any], object]) -> tuple[str, str] | None:
    owner = next(each for each in contract.__mro__ if column in vars(each).get("__annotations__", {}))
    written = vars(owner)["__annotations__"][column]
    text = written if isinstance(written, str) else getattr(written, "__name__", repr(written))
    where = f"{_place_of_column(owner, column)}: {owner.__name__}.{column} is annotated {text}"
    names = {**vars(builtins), **vars(sys.modules[owner.__module__]), **vars(owner)}
    try:
        kind = read(eval(written, names) if isinstance(written, str) else written)  # noqa: S307  It is their own code.
    except BackfillError as error:
        return f"{where}: {error.message}", error.hint or ""
    except (NameError, AttributeError) as error:
        return f"{where}: {_sentence(error)}", meant(error, names)
    except Exception as error:
        return f"{where}, of which no type can be made: {error}.", "A list of texts is T.ArrayType(T.StringType())."
    if is_type(kind):
        return None
    return f"{where}, which is no type of Spark.", f"Did you mean {_TYPES[text]}?" if text in _TYPES else _SOME_TYPES


def _place_of_column(owner: type, column: str) -> str:
    source, file = module_source(owner.__module__), getattr(sys.modules[owner.__module__], "__file__", None)
    declared = source.classes.get(owner.__qualname__) if source else None
    for node in declared.body if declared else ():
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == column:
            return f"{_from_here(str(file))}, line {node.lineno}"
    return owner.__module__


# ------------------------------------------------------------------ modules


def import_refused(name: str, error: Exception) -> InvalidRequest:
    frame = _last_of_project(error.__traceback__, name.partition(".")[0])
    inner, at = frame or ("", "")
    if inner and inner != name and inner not in sys.modules:  # Python removes what it could not import.
        return InvalidRequest(f"{name} cannot be imported: it imports {inner}, which cannot be: {_first_line(error)}")
    column = _column_at(at)
    where = f"{at}{f', {column}' if column else ''}: " if at else ""
    if isinstance(error, BackfillError):
        return InvalidRequest(f"{where}{error.message}", hint=error.hint)
    if isinstance(error, SyntaxError):  # its text has the place
        return InvalidRequest(f"{name} cannot be imported: SyntaxError: {error}.", hint=_BESIDE)
    hint = meant(error, _names_in(error.__traceback__)) or _BESIDE
    return InvalidRequest(f"{where}{name} cannot be imported: {type(error).__name__}: {_sentence(error)}", hint=hint)


def names_written(name: str) -> frozenset[str]:
    """Datasets and tables in a module that fails to import; by its name, if unparsable."""
    try:
        spec = find_spec(name)
        tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8")) if spec and spec.origin else ast.Module([], [])
    except (BackfillError, ImportError, OSError, SyntaxError, ValueError):
        return _with_landed(name.rpartition(".")[2])
    found: set[str] = set()
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        given = [*call.args[:1], *(each.value for each in call.keywords if each.arg == "name")]
        names = [each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        if _called(call) in {"table", "ExternalTable"}:
            found.update(names)
        elif _called(call).endswith("Dataset"):
            found = found.union(*map(_with_landed, names))
    return frozenset(found)


def _called(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def _with_landed(dataset: str) -> frozenset[str]:
    return frozenset({dataset, *(f"{layer}_{dataset}" for layer in _LANDED)})


def _last_of_project(found: TracebackType | None, package: str) -> tuple[str, str] | None:
    last = None
    for frame, line in _frames(found):
        module = str(frame.get("__name__", ""))
        if module.partition(".")[0] == package and frame.get("__file__"):
            last = (module, f"{_from_here(str(frame['__file__']))}, line {line}")
    return last


def _frames(found: TracebackType | None) -> Iterator[tuple[Mapping[str, Any], int]]:
    while found is not None:
        yield found.tb_frame.f_globals, found.tb_lineno
        found = found.tb_next


def _names_in(found: TracebackType | None) -> Mapping[str, Any]:
    return {name: value for frame, _ in [*_frames(found)][-1:] for name, value in frame.items()}


def _column_at(place: str) -> str:
    file, _, line = place.rpartition(", line ")
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ""
    for declared in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for node in (each for each in declared.body if isinstance(each, ast.AnnAssign)):
            if isinstance(node.target, ast.Name) and node.lineno <= int(line) <= (node.end_lineno or node.lineno):
                return f"{declared.name}.{node.target.id}"
    return ""


def dataset_refused(name: str, error: Exception) -> InvalidRequest:
    words = f"The dataset {name} is declared wrong: {type(error).__name__}: {_sentence(error)}"
    return InvalidRequest(words, hint=meant(error, _names_in(error.__traceback__)) or None)


# ------------------------------------------------------------------ words


def meant(error: Exception, known: Mapping[str, Any]) -> str:
    if isinstance(error, AttributeError) and error.name:
        prefix = next((name for name, value in known.items() if value is error.obj), "")
        return suggest_name(f"{prefix}.{error.name}", [f"{prefix}.{each}" for each in dir(error.obj)])
    if isinstance(error, NameError) and error.name:
        if forgotten := _IMPORTS.get(error.name):
            return f"Add: {forgotten}"
        # Imported late: pure modules import this one and load no engine.
        types = import_module("pyspark.sql.types").__all__
        return suggest_name(error.name, [*known, *_IMPORTS, *(f"T.{each}" for each in types)])
    if isinstance(error, ImportError) and error.name in sys.modules:
        asked = getattr(error, "name_from", None) or str(error).split("'")[1:2]
        return suggest_name("".join(asked), dir(sys.modules[error.name]))
    return ""


def _sentence(error: Exception) -> str:
    return f"{_first_line(error).rstrip('.')}."


def _first_line(error: Exception) -> str:
    text = error.message if isinstance(error, BackfillError) else str(error)
    return (text.splitlines() or [type(error).__name__])[0]


def _from_here(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
