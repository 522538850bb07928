"""What an extended day holds, and how it compares with a whole rebuild."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import TypeVar

from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.records import TOTAL, DayContent
from backfill_assets.model.declaration import DUPLICATES, DayRule, Metric, Metrics
from backfill_assets.quality.gates import ContractHolds, KeyIsUnique

EXTENSIONS = "extensions"
"""Metric: extensions since the last whole build."""
_DIGITS = 100


def extensions_of(content: DayContent | None) -> int:
    return int(content.metrics.get(EXTENSIONS) or 0) if content else 0


Stored = TypeVar("Stored")
_RECORDED = "from."
"""Prefix of metrics that describe the inputs of a day."""


def without_extensions(metrics: Mapping[str, Stored]) -> dict[str, Stored]:
    return {name: value for name, value in metrics.items() if name != EXTENSIONS}


@dataclass(frozen=True)
class FileChoice:
    kept: tuple[AddedFile, ...]
    rewritten: tuple[AddedFile, ...]

    @property
    def rewritten_rows(self) -> int:
        return sum(file.rows for file in self.rewritten)


def choose_files(files: Iterable[AddedFile], removed: Mapping[str, int]) -> FileChoice:
    """Rewrite only files with ``removed`` rows, counted by path."""
    ordered = sorted(files)
    return FileChoice(
        tuple(file for file in ordered if not removed.get(file.path)),
        tuple(file for file in ordered if removed.get(file.path)),
    )


@dataclass(frozen=True)
class MetricNames:
    numbers: tuple[str, ...]
    least: tuple[str, ...]
    """Minima of texts, in tables that only gain rows."""
    examples: tuple[str, ...]
    """Examples of wrong rows; empty while no row is wrong."""


def extended_metrics(old: DayContent, removed: Metrics, added: Metrics, names: MetricNames) -> dict[str, Metric]:
    """Empty metrics stand for no rows."""
    before: Metrics = {**old.metrics, "rows": old.rows, "checksum": int(old.checksum)}
    numbers = {name: _changed(before[name], removed.get(name, 0), added.get(name, 0)) for name in names.numbers}
    least = {name: _least(before.get(name), added.get(name)) for name in names.least}
    return {**numbers, **least, **dict.fromkeys(names.examples, "")}


def _changed(before: Metric, removed: Metric, added: Metric) -> Metric:
    values = (before, removed, added)
    if all(isinstance(value, int) for value in values):
        return int(str(before)) - int(str(removed)) + int(str(added))
    with localcontext() as exact:
        exact.prec = _DIGITS
        number = Decimal(str(before)) - Decimal(str(removed)) + Decimal(str(added))
    exponent = number.as_tuple().exponent
    return int(number) if isinstance(exponent, int) and exponent >= 0 else str(number)


def _least(before: Metric, added: Metric) -> str:
    return min((str(text) for text in (before, added) if text), default="")


def without(went: Metrics, stayed: Metrics, names: MetricNames) -> Metrics:
    """Numbers of the removed rows: ``went`` minus ``stayed``, which was written again."""
    return {name: _changed(went[name], stayed.get(name, 0), 0) for name in names.numbers if name in went}


def miscounted(choice: FileChoice, removed: int, stayed: int) -> bool:
    return stayed != choice.rewritten_rows - removed


def own_metrics(metrics: Mapping[str, Stored]) -> dict[str, Stored]:
    return {name: value for name, value in without_extensions(metrics).items() if not name.startswith(_RECORDED)}


EQUAL = "equal to a whole rebuild"


def same_origin(published: DayContent | None, rebuilt: DayContent) -> bool:
    """Whether an extended day was rebuilt from the same inputs by the same code."""
    return published is not None and bool(
        extensions_of(published) and published.input_fingerprint == rebuilt.input_fingerprint
    )


def difference(published: DayContent, rebuilt: DayContent) -> str:
    """Totals first; empty if equal.

    Metrics of inputs are not compared: a rejected row changes those of raw, and no fact.
    """
    before, after = own_metrics(published.metrics), own_metrics(rebuilt.metrics)
    names = sorted(before.keys() | after.keys(), key=lambda name: (not name.startswith(TOTAL), name))
    compared = [
        ("rows", published.rows, rebuilt.rows),
        ("checksum", published.checksum, rebuilt.checksum),
        *((name, before.get(name), after.get(name)) for name in names),
    ]
    return "; ".join(f"{name} {was} -> {now}" for name, was, now in compared if was != now)


def had_no_duplicates(content: DayContent) -> bool:
    """False if true duplicates (equal key and version) were not counted."""
    return content.metrics.get(DUPLICATES, content.metrics.get("deduplicated")) == 0


def is_truth(rule: DayRule) -> bool:
    """Whether it fails only for wrong rows, not for many: then a whole build decides."""
    return rule.judged_afresh or isinstance(rule, ContractHolds | KeyIsUnique)
