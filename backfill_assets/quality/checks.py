"""Which check shows which rules of a table: one for each input that it is reconciled with, its key, its contract. Pure.

A rule that adds up against a table that the step reads belongs to that edge. All others are a check of their own name,
or of the name that a dataset gives them with ``check``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from backfill_assets.model.declaration import DayRule, RuleOutcome, Step, Table
from backfill_assets.quality.gates import gates_of


@dataclass(frozen=True)
class TableCheck:
    """A check and the rules that it shows, at least one."""

    name: str
    rules: tuple[DayRule, ...]

    @property
    def blocks(self) -> bool:
        """Whether a day that breaks it may be held back: warnings alone hold nothing back."""
        return any(rule.severity == "error" for rule in self.rules)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The other tables whose numbers it compares."""
        return tuple(dict.fromkeys(name for rule in self.rules for name in rule.tables))

    def outcomes(self, judged: Sequence[RuleOutcome]) -> tuple[RuleOutcome, ...]:
        """Those of ``judged`` that it shows."""
        names = {rule.name for rule in self.rules}
        return tuple(outcome for outcome in judged if outcome.rule in names)


def checks_of(table: Table, step: Step) -> tuple[TableCheck, ...]:
    """The checks of ``table``, which is one of ``step``: each of its gates is in just one of them."""
    read = {reads.table for version in step.versions for reads in version.reads}
    found: dict[str, list[DayRule]] = {}
    for rule in gates_of(table):
        found.setdefault(_name(rule, table, read), []).append(rule)
    return tuple(TableCheck(name, tuple(rules)) for name, rules in found.items())


def _name(rule: DayRule, table: Table, read: Collection[str]) -> str:
    edges = (f"{name}_to_{table.name}_reconciles" for name in rule.tables if name in read and rule.judged_afresh)
    return re.sub(r"\W", "_", rule.check or next(edges, rule.name))
