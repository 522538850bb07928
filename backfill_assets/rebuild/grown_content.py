"""What a day holds once it has grown: the files that stay, its metrics, and how it compares with a whole rebuild."""

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
"""The metric of how often a day was extended since it was last built whole."""
_DIGITS = 100


def extensions_of(content: DayContent | None) -> int:
    """How often a day was extended since it was last built whole."""
    return int(content.metrics.get(EXTENSIONS) or 0) if content else 0


Stored = TypeVar("Stored")
_RECORDED = "from."
"""Begins the metrics of the tables that a day was built from."""


def without_extensions(metrics: Mapping[str, Stored]) -> dict[str, Stored]:
    """``metrics`` as a whole rebuild would have them."""
    return {name: value for name, value in metrics.items() if name != EXTENSIONS}


@dataclass(frozen=True)
class FileChoice:
    """What becomes of the files of a day: ``kept`` under their names, or ``rewritten`` without the removed rows."""

    kept: tuple[AddedFile, ...]
    rewritten: tuple[AddedFile, ...]

    @property
    def rewritten_rows(self) -> int:
        return sum(file.rows for file in self.rewritten)


def choose_files(files: Iterable[AddedFile], removed: Mapping[str, int]) -> FileChoice:
    """Only the files that hold a removed row are rewritten; ``removed`` counts them by path."""
    ordered = sorted(files)
    return FileChoice(
        tuple(file for file in ordered if not removed.get(file.path)),
        tuple(file for file in ordered if removed.get(file.path)),
    )


@dataclass(frozen=True)
class MetricNames:
    """The metrics of a table by the way in which they change when rows come and go."""

    numbers: tuple[str, ...]
    """Add up, ``rows`` and ``checksum`` among them."""
    least: tuple[str, ...]
    """The least text of all rows; its table only gains rows."""
    examples: tuple[str, ...]
    """Examples of what is wrong in a row; empty as long as nothing is."""


def extended_metrics(old: DayContent, removed: Metrics, added: Metrics, names: MetricNames) -> dict[str, Metric]:
    """What is measured of a day after ``removed`` rows went and ``added`` ones came; empty metrics are no rows."""
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
    """The numbers of the rows that leave files which hold ``went``, of which ``stayed`` is written again."""
    return {name: _changed(went[name], stayed.get(name, 0), 0) for name in names.numbers if name in went}


def miscounted(choice: FileChoice, removed: int, stayed: int) -> bool:
    """Whether other rows of the rewritten files stay than those that are not removed."""
    return stayed != choice.rewritten_rows - removed


def own_metrics(metrics: Mapping[str, Stored]) -> dict[str, Stored]:
    """What was measured of the day itself, as a whole rebuild would have it."""
    return {name: value for name, value in without_extensions(metrics).items() if not name.startswith(_RECORDED)}


EQUAL = "equal to a whole rebuild"
"""What is reported of an extended day that a whole rebuild has confirmed."""


def same_origin(published: DayContent | None, rebuilt: DayContent) -> bool:
    """Whether a published day was extended, and a rebuild has computed it from the same inputs by the same code."""
    return published is not None and bool(
        extensions_of(published) and published.input_fingerprint == rebuilt.input_fingerprint
    )


def difference(published: DayContent, rebuilt: DayContent) -> str:
    """How an extended day differs from its whole rebuild: rows, checksum, and metrics, totals first; empty if equal.

    What other tables held when the day was built is no part of it: a rejected row changes that of raw, and no fact.
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
    """Whether no row of a published day gave way to one of equal key and version, as far as that was counted."""
    return content.metrics.get(DUPLICATES, content.metrics.get("deduplicated")) == 0


def is_truth(rule: DayRule) -> bool:
    """Whether a rule fails for a day only if its rows are wrong, and not because there are many of a kind.

    A whole build decides about an extended day that fails such a rule.
    """
    return rule.judged_afresh or isinstance(rule, ContractHolds | KeyIsUnique)
