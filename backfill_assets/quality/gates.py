"""Verdicts on a staged day, from metrics of it and its inputs. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import get_args

from backfill_assets.model.declaration import (
    DayFacts,
    DayRule,
    Dimension,
    GateFinding,
    Metrics,
    RuleOutcome,
    Step,
    Table,
)

KEYS = "keys"
VIOLATING = "violating"


@dataclass(frozen=True)
class ContractHolds(DayRule):
    """Every row fulfils the contract."""

    name_format = "contract_holds"
    dimension = "validity"

    def judge(self, facts: DayFacts) -> GateFinding:
        violating = facts.count(VIOLATING)
        return GateFinding(
            violating == 0,
            observed=f"{violating} rows break it{facts.example(VIOLATING)}",
            expected="every row fulfils the contract",
            next_step="The transform lets through what the contract forbids: fix it in a new version.",
        )


@dataclass(frozen=True)
class KeyIsUnique(DayRule):
    """No two rows have the same key."""

    key: tuple[str, ...]
    name_format = "keys_unique"
    dimension = "uniqueness"

    @property
    def description(self) -> str:
        return f"No two rows have the same {', '.join(self.key)}."

    def judge(self, facts: DayFacts) -> GateFinding:
        rows, keys = facts.count("rows"), facts.count(KEYS)
        return GateFinding(
            rows == keys,
            observed=f"{keys} different {', '.join(self.key)} in {rows} rows",
            expected="as many as rows",
            next_step="The transform lets a key through twice: fix it in a new version.",
        )


def gates_of(table: Table) -> tuple[DayRule, ...]:
    key = (KeyIsUnique(table.key),) if table.key else ()
    return (ContractHolds(), *key, *table.rules)


def judge(table: Table, facts: DayFacts) -> tuple[RuleOutcome, ...]:
    return tuple(rule.outcome(facts) for rule in gates_of(table))


def looked_at(rules: Iterable[DayRule]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for rule in rules for name in rule.tables))


def looked_at_beside(step: Step) -> tuple[str, ...]:
    """Tables that gates of ``step`` read and that it does not build."""
    names = looked_at(rule for table in step.tables for rule in table.rules)
    return tuple(name for name in names if name not in step.table_names)


# ------------------------------------------------------------------ gates as named checks


@dataclass(frozen=True)
class TableCheck:
    name: str
    rules: tuple[DayRule, ...]

    @property
    def blocks(self) -> bool:
        return any(rule.severity == "error" for rule in self.rules)

    @property
    def inputs(self) -> tuple[str, ...]:
        return looked_at(self.rules)

    def outcomes(self, judged: Sequence[RuleOutcome]) -> tuple[RuleOutcome, ...]:
        names = {rule.name for rule in self.rules}
        return tuple(outcome for outcome in judged if outcome.rule in names)


def checks_of(table: Table, step: Step) -> tuple[TableCheck, ...]:
    read = {reads.table for version in step.versions for reads in version.reads}
    found: dict[str, list[DayRule]] = {}
    for rule in gates_of(table):
        found.setdefault(_name(rule, table, read), []).append(rule)
    return tuple(TableCheck(name, tuple(rules)) for name, rules in found.items())


def _name(rule: DayRule, table: Table, read: Collection[str]) -> str:
    edges = (f"{name}_to_{table.name}_reconciles" for name in rule.tables if name in read and rule.judged_afresh)
    return re.sub(r"\W", "_", rule.check or next(edges, rule.name))


# ------------------------------------------------------------------ how many gates held, known without judging again

DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
_KEPT = ("passed", "rules")
_BAR = 10
_SHORTEST_FAILURE = _BAR - 1
"""A broken rule of many leaves a gap."""


@dataclass(frozen=True)
class DimensionQuality:
    dimension: Dimension
    passed: int
    rules: int
    worst: str = ""
    """In words, errors first; empty if unknown."""

    @property
    def share(self) -> float | None:
        return self.passed / self.rules if self.rules else None


def summarize(outcomes: Iterable[RuleOutcome]) -> tuple[DimensionQuality, ...]:
    found = list(outcomes)
    return tuple(_of(name, [rule for rule in found if rule.dimension == name]) for name in DIMENSIONS)


def score(qualities: Iterable[DimensionQuality]) -> float | None:
    listed = list(qualities)
    rules = sum(each.rules for each in listed)
    return sum(each.passed for each in listed) / rules if rules else None


def chart(qualities: Iterable[DimensionQuality]) -> str:
    width = max(len(name) for name in DIMENSIONS)
    return "\n".join(["```", *(f"{each.dimension:<{width}} {_bar(each)}" for each in qualities), "```"])


def to_metrics(outcomes: Iterable[RuleOutcome]) -> dict[str, int]:
    """Recorded with the day; they add up."""
    judged = [each for each in summarize(outcomes) if each.rules]
    return {_metric(each.dimension, kind): getattr(each, kind) for each in judged for kind in _KEPT}


def from_record(metrics: Metrics) -> tuple[DimensionQuality, ...] | None:
    """Returns None for days published before there were any."""
    found = []
    for name in DIMENSIONS:
        passed, rules = (int(metrics.get(_metric(name, kind)) or 0) for kind in _KEPT)
        found.append(DimensionQuality(name, passed, rules))
    return tuple(found) if any(each.rules for each in found) else None


def _of(dimension: Dimension, outcomes: Sequence[RuleOutcome]) -> DimensionQuality:
    broken = sorted((rule for rule in outcomes if not rule.passed), key=lambda rule: not rule.holds_back)
    return DimensionQuality(
        dimension,
        passed=len(outcomes) - len(broken),
        rules=len(outcomes),
        worst=_in_words(broken[0]) if broken else "",
    )


def _in_words(rule: RuleOutcome) -> str:
    kind = "" if rule.holds_back else "warning: "
    return f"{kind}{rule.rule}: {rule.observed}, expected {rule.expected}"


def _bar(quality: DimensionQuality) -> str:
    if quality.share is None:
        return f"{'·' * _BAR} no rule"
    full = round(quality.share * _BAR)
    blocks = full if quality.passed == quality.rules else min(full, _SHORTEST_FAILURE)
    return f"{'█' * blocks}{'░' * (_BAR - blocks)} {quality.passed}/{quality.rules}"


def _metric(dimension: Dimension, kind: str) -> str:
    return f"quality.{dimension}.{kind}"
