"""Checks of a day as Dagster shows them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import dagster as dg
from dagster_shared.record import replace

from backfill_assets.defs.dagster_internals import Target
from backfill_assets.defs.metadata import (
    gates_summary,
    judged_for,
    lacking,
    nothing_left,
    quality_metadata,
    rejects_metadata,
    rules_table,
)
from backfill_assets.model.declaration import RuleOutcome, Step
from backfill_assets.quality.gates import TableCheck, checks_of
from backfill_assets.rebuild.outcome import BuiltDay
from backfill_assets.state.diagnosis import Cause, in_a_word

FRESH, WATCHDOG = "fresh", "watchdog"
AS_USUAL, AS_SENT, AS_DECLARED, DELIVERED = "as_usual", "as_sent", "as_declared", "delivered"
DELIVERED_AS_USUAL = "delivered_as_usual"
PUBLICATION, PHYSICAL = "publication", "physical"
"""Metadata: what a watchdog read."""
BROKEN, LOST = "broken", "lost"
"""Metadata of a watchdog: failed rules, comma-separated; whether files are lost."""
RULES = "rules"
BESIDE = "beside"
MADE_OF = "made_of"
NOT_RUN, HELD = "not_run", "held_back_in_it"
"""Metadata of a check without verdict: the run that ended before it."""


def checks_by_table(steps: Sequence[Step]) -> dict[str, tuple[TableCheck, ...]]:
    built = (step for step in steps if not step.external)
    return {table.name: checks_of(table, step) for step in built for table in step.tables}


def check_key(table: str, check: str) -> dg.AssetCheckKey:
    return dg.AssetCheckKey(dg.AssetKey(table), check)


def gate_keys(steps: Sequence[Step]) -> list[dg.AssetCheckKey]:
    checks = checks_by_table(steps).items()
    return [check_key(table, check.name) for table, found in checks for check in found if check.blocks]


def check_names(checks: Sequence[TableCheck]) -> list[str]:
    return [*(check.name for check in checks), FRESH, WATCHDOG]


def evaluations(
    day: BuiltDay, checks: Sequence[TableCheck], target: Target | None = None
) -> Iterator[dg.AssetCheckEvaluation]:
    """``target`` is the judged materialization, None if nothing was published. Rules not judged at publication are left
    out.
    """
    if not day.is_there:
        for check in checks:
            yield verdict_of(day.table, check.name, str(day.day), nothing_left(day), {}, passed=True)
        yield never_built(day) if day.closed_by else withdrawn(day.table, day.day, day.publication)
        return
    for check in checks:
        outcomes = check.outcomes(day.rules)
        if outcomes or not day.rules:
            # A day that failed has no materialization that could show its quality.
            more = quality_metadata(day) if check is checks[0] and not day.publication else {}
            yield _evaluation(day, check, outcomes, target, more)
    if day.publication:
        why = day.closed_by.said.removeprefix("closed ") if day.closed_by else ""
        yield freshness(day.table, day.day, day.stays, day.publication, target, why)


def _evaluation(
    day: BuiltDay,
    check: TableCheck,
    outcomes: Sequence[RuleOutcome],
    target: Target | None,
    more: Mapping[str, Any],
) -> dg.AssetCheckEvaluation:
    broken = sorted((rule for rule in outcomes if not rule.passed), key=lambda rule: not rule.holds_back)
    held_back = any(rule.holds_back for rule in broken)
    return verdict_of(
        day.table,
        check.name,
        str(day.day),
        _judgement(day, check, outcomes, broken),
        {
            **(rejects_metadata(day) if check.inputs else {}),
            **_both_sides(day, outcomes),
            **({MADE_OF: day.input_fingerprint} if held_back else {}),
            **more,
        },
        passed=not broken,
        is_warning=bool(broken) and not held_back,
        blocking=check.blocks,
        target=target,
    )


def _judgement(day: BuiltDay, check: TableCheck, outcomes: Sequence[RuleOutcome], broken: Sequence[RuleOutcome]) -> str:
    if not outcomes:
        return gates_summary(day)
    said = [_broken_rule(rule) for rule in broken] or [
        f"{rule.observed}, expected {rule.expected}" for rule in outcomes
    ]
    if check.inputs and not broken and (rejected := lacking(day)):
        said.append(rejected)
    return (f"{judged_for(day)}: " if day.reused else "") + "; ".join(said)


def _broken_rule(rule: RuleOutcome) -> str:
    next_step = f" -> {rule.next_step}" if rule.next_step else ""
    kind = "" if rule.holds_back else "warning, "
    return f"{kind}{rule.rule}: expected {rule.expected}, observed {rule.observed}{next_step}"


def _both_sides(day: BuiltDay, outcomes: Sequence[RuleOutcome]) -> dict[str, Any]:
    details = [line for rule in outcomes for line in rule.details]
    said = {"pandera": "\n".join(details)} if details else {}
    if len(outcomes) > 1:
        return {"rules": rules_table(outcomes, judged_for(day) if day.reused else ""), **said}
    return {**{name: getattr(rule, name) for rule in outcomes for name in ("observed", "expected")}, **said}


def freshness(
    table: str, day: date, cause: Cause | None, publication: str, target: Target | None = None, why: str = ""
) -> dg.AssetCheckEvaluation:
    stale = f"{in_a_word(cause)}: {why}" if why else f"{in_a_word(cause)}; the sensor repairs says what next"
    words = stale if cause else "built from what is published of its inputs"
    about = {PUBLICATION: publication}
    return verdict_of(table, FRESH, str(day), words, about, passed=not cause, is_warning=bool(cause), target=target)


def withdrawn(table: str, day: date, publication: str) -> dg.AssetCheckEvaluation:
    """Dagster cannot forget the materialization of one partition: its check says that nothing is there."""
    words = f"Nothing is published for this day since {publication} withdrew it. Build it again."
    return verdict_of(table, FRESH, str(day), words, {PUBLICATION: publication}, passed=False)


def never_built(day: BuiltDay) -> dg.AssetCheckEvaluation:
    words = f"Nothing is published for this day: it is {day.closed_by.said if day.closed_by else 'closed'}"
    return verdict_of(day.table, FRESH, str(day.day), words, {}, passed=False, is_warning=True)


def not_run(table: str, check: str, day: str, run: str, *, held_back: bool) -> dg.AssetCheckEvaluation:
    why = "in which a gate held days back, published none" if held_back else "ended before it"
    words = f"Not run: the run {run[:8]}{',' * held_back} {why}. Launch the day again."
    about = {NOT_RUN: dg.MetadataValue.dagster_run(run), **({HELD: True} if held_back else {})}
    return verdict_of(table, check, day, words, about, passed=False, is_warning=True)


def without_data(table: str, check: str, day: str) -> dg.AssetCheckEvaluation:
    words = "Nothing to judge: nothing has landed for this day, or for a day that it is made of."
    return verdict_of(table, check, day, words, {}, passed=True)


def of_rule(
    table: str, day: date, rule: RuleOutcome, publication: str = "", target: Target | None = None
) -> dg.AssetCheckEvaluation:
    about = {"observed": rule.observed} | ({"expected": rule.expected} if rule.expected else {})
    words = ", expected ".join(about.values()) if rule.passed else _broken_rule(rule)
    about |= {PUBLICATION: publication} if publication else {}
    is_warning = not rule.passed and not rule.holds_back
    passed, name = rule.passed, rule.rule
    return verdict_of(table, name, str(day), words, about, passed=passed, is_warning=is_warning, target=target)


def verdict_of(
    table: str,
    check: str,
    day: str,
    words: str,
    metadata: Mapping[str, Any],
    *,
    passed: bool,
    is_warning: bool = False,
    blocking: bool = False,
    target: Target | None = None,
) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(table),
        check_name=check,
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN if is_warning else dg.AssetCheckSeverity.ERROR,
        blocking=blocking,
        partition=day,
        description=words,
        metadata=metadata,
        target_materialization_data=target,
    )


def again(verdict: dg.AssetCheckEvaluation, target: Target | None, why: str) -> dg.AssetCheckEvaluation:
    words = verdict.description or ""
    # Not prefixed again for a day that is unchanged again.
    said = words if words.startswith(f"{why}: ") else f"{why}: {words}"
    return replace(verdict, description=said, target_materialization_data=target)


def publication_of(told: dg.AssetCheckEvaluation | dg.AssetMaterialization | None) -> str:
    named = told.metadata.get(PUBLICATION) if told else None
    return str(named.value) if named else ""
