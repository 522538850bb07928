"""Metadata of built days in Dagster, and what a run logs of them. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from hashlib import sha256
from typing import Any

import dagster as dg

from backfill_assets.errors import BackfillError
from backfill_assets.landing.quarantine import rejected_of
from backfill_assets.model.declaration import Metric, RuleOutcome
from backfill_assets.model.deletion import DELETED
from backfill_assets.model.drift import FIELDS, from_text
from backfill_assets.model.placement import is_ingestion
from backfill_assets.quality.gates import DimensionQuality, chart, from_record, score, summarize
from backfill_assets.rebuild.outcome import BuildResult, BuiltDay, DaysFailed
from backfill_assets.text import format_count, format_ranges

_RULE_COLUMNS = {
    "rule": "string",
    "passed": "bool",
    "observed": "string",
    "expected": "string",
    "next step": "string",
    "dimension": "string",
    "severity": "string",
}


def day_metadata(day: BuiltDay) -> dict[str, Any]:
    if not day.is_there:
        return {"dagster/partition_row_count": 0, "gates": nothing_left(day), "publication": day.publication}
    left_to = day.held_by.rollback if day.held_by else ""
    told = {"built over the rollback": day.rolled_back_by, "left to the rollback": left_to, "verified": day.verified}
    accounting = ", ".join(f"{name} {count:,}" for name, count in _accounting(day).items())
    return {
        "dagster/partition_row_count": day.rows,
        **_totals(day),
        **({"accounting": accounting} if accounting else {}),
        **_not_as_declared(day),
        "gates": gates_summary(day),
        **quality_metadata(day),
        "publication": day.publication,
        "code_version": day.code_version,
        "reused": day.reused,
        **{name: text for name, text in told.items() if text},
        "details": _details(day),
    }


def _details(day: BuiltDay) -> dict[str, Any]:
    cost = {
        "table_version": day.table_version,
        "seconds": round(day.seconds, 3),
        "bytes": day.bytes,
        "files": day.files,
    }
    return {
        "checksum": day.checksum,
        "input_versions": dict(day.inputs),
        "input_fingerprint": day.input_fingerprint,
        **({} if day.reused else cost),
    }


def _accounting(day: BuiltDay) -> dict[str, int]:
    counts = {
        "received": _metric_of(day, "raw_", "received"),
        "quarantined": _quarantined(day),
        "deduplicated": _metric_of(day, "bronze_", "deduplicated"),
        "superseded": _metric_of(day, "bronze_", "superseded"),
        "deleted": _metric_of(day, "raw_", DELETED),
    }
    return {name: int(count) for name, count in counts.items() if count is not None}


def _not_as_declared(day: BuiltDay) -> dict[str, str]:
    found = from_text(day.metrics.get(FIELDS))
    return {"not as declared": "; ".join(map(str, found))} if found else {}


def rejects_metadata(day: BuiltDay) -> dict[str, int]:
    """``received`` = ``accepted`` + ``rejected`` + ``deleted``. Empty if the counts are unknown."""
    received, rejected = _metric_of(day, "raw_", "received"), _quarantined(day)
    if received is None or rejected is None:
        return {}
    deleted = int(_metric_of(day, "raw_", DELETED) or 0)
    counts = {"received": int(received), "accepted": int(received) - rejected - deleted, "rejected": rejected}
    return counts | ({"deleted": deleted} if deleted else {})


def lacking(day: BuiltDay) -> str:
    rejected = _quarantined(day)
    return f"in quarantine: {rejected_of(rejected, int(_metric_of(day, 'raw_', 'received') or 0))}" if rejected else ""


def _quarantined(day: BuiltDay) -> int | None:
    if day.table.startswith("quarantine_"):
        return day.rows
    found = _metric_of(day, "quarantine_", "rows")
    received, deduplicated = _metric_of(day, "raw_", "received"), day.metrics.get("deduplicated")
    if found is not None or received is None or deduplicated is None or not day.publication:
        return None if found is None else int(found)
    return int(received) - day.rows - int(deduplicated) - int(_metric_of(day, "raw_", DELETED) or 0)


def _metric_of(day: BuiltDay, tables: str, metric: str) -> Metric:
    for name, value in day.metrics.items():
        if name.startswith(f"from.{tables}") and name.endswith(f".{metric}"):
            return value
    return day.metrics.get(metric)


def _totals(day: BuiltDay) -> dict[str, float]:
    # As floats, so that the UI can plot them; the exact decimals are in the publication log.
    totals = {name: value for name, value in day.metrics.items() if name.startswith("total_")}
    return {name: float(value) for name, value in totals.items() if value is not None}


def gates_summary(day: BuiltDay) -> str:
    if day.reused and not day.rules:
        return f"unchanged since they passed for publication {day.publication}"
    as_judged = f", {judged_for(day)}" if day.reused else ""
    warnings = sum(not rule.passed and not rule.holds_back for rule in day.rules)
    suffix = f", {format_count(warnings, 'warning')}" if warnings else ""
    return f"{sum(rule.passed for rule in day.rules)} of {len(day.rules)} passed{suffix}{as_judged}"


def nothing_left(day: BuiltDay) -> str:
    return f"nothing to judge: {day.publication} withdrew the day"


def judged_for(day: BuiltDay) -> str:
    return f"as judged for publication {day.publication}"


def quality_metadata(day: BuiltDay) -> dict[str, Any]:
    if day.rules:
        return _dimensions(summarize(day.rules), judged_for(day) if day.reused else "")
    kept = from_record(day.metrics)
    if kept is None:
        return {"quality": f"unchanged since its gates passed for publication {day.publication}"}
    return _dimensions(kept, judged_for(day))


def _dimensions(qualities: Sequence[DimensionQuality], judged: str) -> dict[str, Any]:
    wrong = [f"- {each.dimension}: {each.worst}" for each in qualities if each.worst]
    page, total = "\n".join([chart(qualities), *wrong, judged]).rstrip(), score(qualities)
    return {"quality": dg.MetadataValue.md(page), **({"quality_score": total} if total is not None else {})}


def rules_table(rules: Sequence[RuleOutcome], judged: str = "") -> dg.MetadataValue:
    then = {"judged": judged} if judged else {}
    return metadata_table(
        _RULE_COLUMNS | dict.fromkeys(then, "string"),
        (
            {
                **then,
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


def metadata_table(
    columns: Mapping[str, str], rows: Iterable[Mapping[str, str | int | float | bool]]
) -> dg.MetadataValue:
    """``columns`` are types by name: Dagster infers them from rows, and fails without any."""
    schema = dg.TableSchema(columns=[dg.TableColumn(name, kind) for name, kind in columns.items()])
    return dg.MetadataValue.table(records=[dg.TableRecord(dict(row)) for row in rows], schema=schema)


def gate_failure(error: DaysFailed) -> dg.Failure:
    failed_days = sorted({day.day for day in error.failed})
    broken = sorted({f"{day.table}.{rule.rule}" for day in error.failed for rule in day.rules if rule.holds_back})
    return dg.Failure(
        description=str(error),
        metadata={
            "failed_days": format_ranges(failed_days),
            "failed_rules": broken,
            "staged_days": error.staged,
        },
        allow_retries=False,
    )


def plain_failure(error: BackfillError, metadata: Mapping[str, Any] | None = None) -> dg.Failure:
    hint = {"next_step": error.hint} if error.hint else {}
    return dg.Failure(description=str(error), metadata={**hint, **(metadata or {})}, allow_retries=False)


def warnings(result: BuildResult) -> Iterator[str]:
    """Days outside the run that got late rows; rolled-back days that were built again, or that a repair left."""
    for table, late in result.appended_elsewhere.items():
        if late:
            where = format_ranges(late)
            yield f"{table}: late rows were appended to {where}. What was built from those days is stale."
    again: dict[tuple[str, str], list[date]] = {}
    left: dict[tuple[str, str], list[date]] = {}
    for day in result.days:
        if day.rolled_back_by:
            again.setdefault((day.table, day.rolled_back_by), []).append(day.day)
        if day.held_by:
            left.setdefault((day.table, day.held_by.rollback), []).append(day.day)
    for (table, rollback), days in again.items():
        back = format_ranges(days)
        yield f"{table}: {back} had been rolled back by {rollback}; this run has built and published them again."
    for (table, rollback), days in left.items():
        held = format_ranges(days)
        yield f"{table}: {held} had been rolled back by {rollback}, and this repair leaves them so."


def table_line(table: str, built: Sequence[BuiltDay]) -> str:
    days = [day for day in built if day.table == table]
    new = [day for day in days if not day.reused]
    by = ", ".join(sorted({day.publication for day in new}))
    published = f"published {format_ranges([day.day for day in new])} by {by}" if new else "published nothing"
    return f"{table}: {published}; {len(days) - len(new)} of {len(days)} unchanged{_versions_text(days)}"


def _versions_text(built: Sequence[BuiltDay]) -> str:
    days_of: dict[str, list[date]] = {}
    for day in built:
        days_of.setdefault(day.code_version, []).append(day.day)
    named = {version: days for version, days in days_of.items() if version and not is_ingestion(version)}
    if len(named) == 1:
        return f"; by {next(iter(named))}"
    return "".join(f"; {format_ranges(days)} by {version}" for version, days in sorted(named.items()))


def digest(metadata: Mapping[str, dg.MetadataValue], of: str = "") -> str:
    text = json.dumps([of, {name: str(value.value) for name, value in metadata.items()}])
    return sha256(text.encode()).hexdigest()[:16]
