"""The report of a campaign step, as Markdown for a page. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backfill_assets.lakehouse.campaign_journal import CampaignStep
from backfill_assets.text import escape_markdown, markdown_table

_MOST = 50
_MARKDOWN = ("difference",)
"""Texts of a report that are Markdown already; others may be errors."""


def markdown(step: CampaignStep, report: Mapping[str, Any]) -> str:
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
