"""What a step of a campaign has found or done, in a sentence or in full: from what its entry reports. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from backfill_assets.lakehouse.campaign_journal import CampaignStep, JournalEntry
from backfill_assets.plan.records import Ranges, days_of
from backfill_assets.text import escape_markdown, format_count, markdown_table

_MOST = 50
_MARKDOWN = ("difference",)
"""Texts of a report that are Markdown already; others may be errors."""


def step_sentence(step: CampaignStep, report: Mapping[str, Any]) -> str:
    """What ``step`` reports when it is done."""
    return _SENTENCES[step](report)


def entry_sentence(entry: JournalEntry) -> str:
    """What an entry of the journal says beside what happened and who did it; empty if that is all."""
    if entry.reason:
        return entry.reason
    if entry.kind == "step":
        return step_sentence(CampaignStep(entry.step), entry.report)
    if entry.kind == "wave":
        return " ".join([_staged(entry.report), *map(str, entry.report.get("warnings", ()))])
    return ""


def _announced(report: Mapping[str, Any]) -> str:
    return f"{report.get('notice', 'It is announced')}."


def _verified(report: Mapping[str, Any]) -> str:
    inputs: Mapping[str, Mapping[str, Any]] = report.get("inputs", {})
    days = sum(int(each.get("days", 0)) for each in inputs.values())
    return f"{format_count(days, 'day')} of {format_count(len(inputs), 'input')} hold what was published."


def _pinned(report: Mapping[str, Any]) -> str:
    waiting: Mapping[str, Mapping[str, int]] = report.get("not taken in", {})
    files = sum(sum(days.values()) for days in waiting.values())
    more = f"; {format_count(files, 'landed file')} that are not ingested are no part of them" if files else ""
    return f"The versions of {format_count(len(report.get('versions', ())), 'input')} are recorded{more}."


def _staged(report: Mapping[str, Any]) -> str:
    counts = list(report.get("days", {}).values())
    staged, unchanged, held = (
        sum(each.get(name, 0) for each in counts) for name in ("staged", "unchanged", "held back")
    )
    verbs = ["is" if count == 1 else "are" for count in (staged, held)]
    return (
        f"{format_count(staged, 'day')} of tables {verbs[0]} staged, {unchanged} would not change, "
        f"{held} {verbs[1]} held back."
    )


def _published(report: Mapping[str, Any]) -> str:
    days: Mapping[str, Ranges] = report.get("days", {})
    count = sum(len(days_of(tuple(ranges))) for ranges in days.values())
    stale: Mapping[str, Ranges] = report.get("leaves stale", {})
    behind = "; ".join(f"{table} {', '.join(ranges)}" for table, ranges in stale.items())
    more = f" These read it and are stale until they are built: {behind}." if behind else ""
    return (
        f"Published {format_count(count, 'day')} of {format_count(len(days), 'table')} at once, by "
        f"{report.get('publication', '')}.{more}"
    )


def _checked(report: Mapping[str, Any]) -> str:
    more = f" Built as well: {', '.join(report['rebuilt'])}." if report.get("rebuilt") else ""
    days = format_count(report.get("checked", 0), "published day")
    return f"{days} of tables were read again: they are as staged.{more}"


def _notified(report: Mapping[str, Any]) -> str:
    due: Mapping[str, str] = report.get("still due", {})
    return f"The notice did not arrive: {next(iter(due.values()))}." if due else "The notice is sent."


def _closed(report: Mapping[str, Any]) -> str:
    count = len(report.get("closed", ()))
    return f"{format_count(count, 'timeline')} {'is' if count == 1 else 'are'} closed."


_SENTENCES: Mapping[CampaignStep, Callable[[Mapping[str, Any]], str]] = {
    CampaignStep.ANNOUNCE: _announced,
    CampaignStep.VERIFY_SOURCE: _verified,
    CampaignStep.PIN: _pinned,
    CampaignStep.SHADOW: _staged,
    CampaignStep.VALIDATE: lambda report: str(report.get("sentence", "It is compared with what is published.")),
    CampaignStep.CUT_OVER: _published,
    CampaignStep.DOWNSTREAM: _checked,
    CampaignStep.NOTIFY: _notified,
    CampaignStep.DECOMMISSION: _closed,
}


def step_markdown(step: CampaignStep, report: Mapping[str, Any]) -> str:
    """Plain values as lines, tables of values as tables; only what is Markdown itself is taken as such."""
    lines = [f"### {step.value.replace('_', ' ')}", ""]
    for name, value in report.items():
        if isinstance(value, Mapping) and value and all(isinstance(each, Mapping) for each in value.values()):
            lines += ["", f"**{name}**", "", _table(value), ""]
        elif isinstance(value, Mapping):
            lines += [f"- {name}: {', '.join(f'{key} {_plain(each)}' for key, each in value.items()) or 'none'}"]
        elif isinstance(value, list):
            lines += [f"- {name}: {len(value) or 'none'}", *(f"    - {_plain(each)}" for each in value[:_MOST])]
        elif name in _MARKDOWN:
            lines += ["", value, ""]
        else:
            lines += [f"- {name}: {_plain(value)}"]
    return "\n".join(lines) + "\n"


def _table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    cells = ([name, *(_text(row.get(column, "")) for column in columns)] for name, row in rows.items())
    return markdown_table(("", *columns), cells)


def _plain(value: Any) -> str:
    return escape_markdown(_text(value))


def _text(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)}" if len(value) > 3 else ", ".join(map(str, value))
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_text(each)}" for key, each in value.items())
    return str(value)
