"""Verdicts on a *published* day, read again. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from backfill_assets.model.declaration import DayFacts, DayRule, GateFinding, Metrics, RuleOutcome, Table
from backfill_assets.quality.gates import looked_at
from backfill_assets.text import format_are

FILES, CONTENT = "files_as_published", "content_as_published"


@dataclass(frozen=True)
class RecordedDay:
    """By the log, and whether files match."""

    rows: int
    checksum: str | None
    """Absent if published with other columns."""
    content_hash_sum: str | None
    files_as_published: bool
    missing_files: tuple[str, ...] = ()
    unreadable: str = ""
    adopted: bool = False
    """Breaches were listed then."""


def watched_rules(table: Table) -> tuple[DayRule, ...]:
    return tuple(rule for rule in table.rules if rule.judged_afresh)


def metrics_needed(table: Table) -> tuple[str, ...]:
    return looked_at(watched_rules(table))


def judge(
    table: Table, recorded: RecordedDay, facts: DayFacts, unread: Collection[str] = ()
) -> tuple[RuleOutcome, ...]:
    """Files, content, watched rules, without those on ``unread`` tables: the day that lost files is wrong."""
    files = _files(table, recorded).as_outcome(FILES, "consistency")
    if recorded.missing_files or recorded.unreadable:
        return (files,)
    content = _content(table, recorded, facts.own).as_outcome(CONTENT, "consistency")
    declared = (
        replace(rule.judge(facts), next_step=_rebuild(table)).as_outcome(rule.name, rule.dimension)
        for rule in (() if recorded.adopted else watched_rules(table))
        if not set(rule.tables).intersection(unread)
    )
    return (files, content, *declared)


def in_words(outcomes: Iterable[RuleOutcome]) -> str:
    listed = list(outcomes)
    failed = [rule for rule in listed if not rule.passed]
    if not failed:
        return f"{len(listed)} rules hold on what the tables hold now"
    deviations = "; ".join(f"{rule.rule}: expected {rule.expected}, observed {rule.observed}" for rule in failed)
    return f"{deviations} -> {failed[0].next_step}"


def _files(table: Table, recorded: RecordedDay) -> GateFinding:
    lost = _RESTORE.format(table=table.name) if table.layer == "raw" else _rebuild(table)
    if recorded.missing_files:
        gone = recorded.missing_files
        return GateFinding(
            False,
            f"{format_are(len(gone), 'file')} gone, for example {gone[0]}",
            "every file is there",
            lost,
        )
    if recorded.unreadable:
        return GateFinding(False, f"damaged: {recorded.unreadable}", "every file can be read", lost)
    observed = "the files of its last publication" if recorded.files_as_published else "files that were not published"
    return GateFinding(recorded.files_as_published, observed, "the files of its last publication", _rebuild(table))


def _content(table: Table, recorded: RecordedDay, own: Metrics) -> GateFinding:
    known = {"rows": str(recorded.rows), "checksum": recorded.checksum, "content": recorded.content_hash_sum}
    holds = {"rows": str(own["rows"]), "checksum": str(own["checksum"]), "content": str(own.get("content_hash_sum"))}
    compared = [name for name, value in known.items() if value is not None]
    observed, expected = (", ".join(f"{name} {each[name]}" for name in compared) for each in (holds, known))
    return GateFinding(observed == expected, observed, expected, _rebuild(table))


_RESTORE = "The sensor repairs reads its rows again from landed files. If it is off: backfill raw restore {table} DAY."


def _rebuild(table: Table) -> str:
    if table.layer == "raw":
        return (
            "Raw cannot be built again from landing, where each file counts once. Find out who wrote "
            f"(backfill history {table.name}), then restore the published files: "
            'backfill docs operations "Foreign writes"'
        )
    return "The sensor repairs builds the day again, and what is downstream; if it is off, launch them with force."
