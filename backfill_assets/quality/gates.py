"""Gates: the verdicts on a staged day, from its metrics and those of the tables it was built from. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from backfill_assets.model.declaration import DayFacts, DayRule, GateFinding, RuleOutcome, Table

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
    """Every gate of ``table``: its contract and its key, which ``measures`` measures of each table, and its rules."""
    key = (KeyIsUnique(table.key),) if table.key else ()
    return (ContractHolds(), *key, *table.rules)


def judge(table: Table, facts: DayFacts) -> tuple[RuleOutcome, ...]:
    """The outcome of every gate of ``table`` on one day."""
    return tuple(rule.outcome(facts) for rule in gates_of(table))


def metrics_needed(table: Table) -> tuple[str, ...]:
    """The other tables whose metrics of the same day :func:`judge` looks at; companions of its step among them."""
    return tuple(dict.fromkeys(name for rule in table.rules for name in rule.tables))
