"""What a built day looks like in Dagster: metadata, check evaluations and failures. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

import dagster as dg

from backfill_assets.defs.private_dagster import AssetCheckEvaluationTargetMaterializationData
from backfill_assets.defs.quality_metadata import quality_metadata
from backfill_assets.defs.specs import GATES
from backfill_assets.defs.tables import metadata_table
from backfill_assets.errors import BackfillError
from backfill_assets.model.declaration import Metric, RuleOutcome
from backfill_assets.rebuild.outcome import BuiltDay, DaysFailed
from backfill_assets.text import format_ranges

_RULE_COLUMNS = {
    "rule": "string",
    "passed": "bool",
    "observed": "string",
    "expected": "string",
    "next step": "string",
    "dimension": "string",
    "severity": "string",
}


def day_metadata(day: BuiltDay, quarantined: int | None = None) -> dict[str, dg.MetadataValue]:
    """Metadata of one published day: its rows, quality, publication, inputs and cost.

    ``quarantined`` counts the rows that the same step rejected for that day, if it rejects any.
    """
    return {
        "dagster/partition_row_count": dg.MetadataValue.int(day.rows),
        **_accounting(day, quarantined),
        **_totals(day),
        "gates": dg.MetadataValue.text(_gates_summary(day)),
        **quality_metadata(day),
        "reused": dg.MetadataValue.bool(day.reused),
        **({"built over the rollback": dg.MetadataValue.text(day.rolled_back_by)} if day.rolled_back_by else {}),
        "publication": dg.MetadataValue.text(day.publication),
        "checksum": dg.MetadataValue.text(day.checksum),
        "code_version": dg.MetadataValue.text(day.code_version),
        "input_versions": dg.MetadataValue.json(dict(day.inputs)),
        "input_fingerprint": dg.MetadataValue.text(day.input_fingerprint),
        **({} if day.reused else _cost(day)),
    }


def _cost(day: BuiltDay) -> dict[str, dg.MetadataValue]:
    return {
        "table_version": dg.MetadataValue.int(day.table_version),
        "seconds": dg.MetadataValue.float(round(day.seconds, 3)),
        "bytes": dg.MetadataValue.int(day.bytes),
        "files": dg.MetadataValue.int(day.files),
    }


def _accounting(day: BuiltDay, quarantined: int | None) -> dict[str, dg.MetadataValue]:
    """Rows received, quarantined, deduplicated and superseded on the way to the day's own rows."""
    found = {
        "received": _counted(day, "raw_", "received"),
        "quarantined": quarantined if quarantined is not None else _counted(day, "quarantine_", "rows"),
        "deduplicated": _counted(day, "bronze_", "deduplicated"),
        "superseded": _counted(day, "bronze_", "superseded"),
    }
    return {name: dg.MetadataValue.int(int(count)) for name, count in found.items() if count is not None}


def _counted(day: BuiltDay, tables: str, metric: str) -> Metric:
    """A metric of what the day was built from, recorded as ``from.<table>.<metric>``; else the day's own."""
    for name, value in day.metrics.items():
        if name.startswith(f"from.{tables}") and name.endswith(f".{metric}"):
            return value
    return day.metrics.get(metric)


def _totals(day: BuiltDay) -> dict[str, dg.MetadataValue]:
    # As floats, so that the UI can plot them; the exact decimals are in the publication log.
    totals = {name: value for name, value in day.metrics.items() if name.startswith("total_")}
    return {name: dg.MetadataValue.float(float(value)) for name, value in totals.items() if value is not None}


def evaluation(
    day: BuiltDay, target: AssetCheckEvaluationTargetMaterializationData | None = None
) -> dg.AssetCheckEvaluation:
    """The gates of one day. ``target`` is the materialization that they judge: none if nothing was published.

    A day with broken warnings is published, and its evaluation is a warning: Dagster shows it and blocks nothing.
    """
    broken = sorted((rule for rule in day.rules if not rule.passed), key=lambda rule: not rule.holds_back)
    held_back = any(rule.holds_back for rule in broken)
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(day.table),
        check_name=GATES,
        passed=not broken,
        severity=dg.AssetCheckSeverity.WARN if broken and not held_back else dg.AssetCheckSeverity.ERROR,
        blocking=True,
        partition=day.day.isoformat(),
        description="; ".join(_broken_rule(rule) for rule in broken) or _gates_summary(day),
        metadata=_judged(day) if day.rules else {"gates": _gates_summary(day)},
        target_materialization_data=target,
    )


def _judged(day: BuiltDay) -> dict[str, dg.MetadataValue]:
    return {"rules": rules_table(day.rules), **quality_metadata(day)}


def gate_failure(error: DaysFailed) -> dg.Failure:
    """Names the days, the rules and the next step; the checks of the failed days have every rule's outcome."""
    failed_days = sorted({day.day for day in error.failed})
    broken = sorted({f"{day.table}.{rule.rule}" for day in error.failed for rule in day.rules if rule.holds_back})
    return dg.Failure(
        description=str(error),
        metadata={
            "failed_days": dg.MetadataValue.text(format_ranges(failed_days)),
            "failed_rules": dg.MetadataValue.json(broken),
            "staged_days": dg.MetadataValue.int(error.staged),
        },
        allow_retries=False,
    )


def plain_failure(error: BackfillError) -> dg.Failure:
    """An error that a person can act on, without a stack trace in front of it."""
    hint = {"next_step": dg.MetadataValue.text(error.hint)} if error.hint else {}
    return dg.Failure(description=str(error), metadata=hint, allow_retries=False)


def late_days(appended_elsewhere: Mapping[str, Sequence[date]]) -> dict[str, str]:
    """Table -> the days outside the request that got late rows, written as ranges."""
    return {table: format_ranges(days) for table, days in appended_elsewhere.items() if days}


def rolled_back_days(built: Sequence[BuiltDay]) -> dict[tuple[str, str], str]:
    """The days that a person had rolled back before this run built them again, by table and rollback."""
    found: dict[tuple[str, str], list[date]] = {}
    for day in built:
        if day.rolled_back_by:
            found.setdefault((day.table, day.rolled_back_by), []).append(day.day)
    return {key: format_ranges(days) for key, days in found.items()}


def table_line(table: str, built: Sequence[BuiltDay]) -> str:
    """What became of one table in a run: its days, and the publication that brought them."""
    days = [day for day in built if day.table == table]
    new = [day for day in days if not day.reused]
    by = ", ".join(sorted({day.publication for day in new}))
    published = f"published {format_ranges([day.day for day in new])} by {by}" if new else "published nothing"
    return f"{table}: {published}; {len(days) - len(new)} of {len(days)} unchanged"


def _broken_rule(rule: RuleOutcome) -> str:
    next_step = f" -> {rule.next_step}" if rule.next_step else ""
    kind = "" if rule.holds_back else "warning, "
    return f"{kind}{rule.rule}: expected {rule.expected}, observed {rule.observed}{next_step}"


def _gates_summary(day: BuiltDay) -> str:
    if day.reused and not day.rules:
        return f"unchanged since they passed for publication {day.publication}"
    warnings = sum(not rule.passed and not rule.holds_back for rule in day.rules)
    told = f", {warnings} warning(s)" if warnings else ""
    return f"{sum(rule.passed for rule in day.rules)} of {len(day.rules)} passed{told}"


def rules_table(rules: Sequence[RuleOutcome]) -> dg.MetadataValue:
    """Every rule with what was seen, what was to be seen, and the next step of those that failed."""
    return metadata_table(
        _RULE_COLUMNS,
        (
            {
                "rule": rule.rule,
                "passed": rule.passed,
                "observed": rule.observed,
                "expected": rule.expected,
                "next step": "" if rule.passed else rule.next_step,
                "dimension": rule.dimension,
                "severity": rule.severity,
            }
            for rule in rules
        ),
    )
