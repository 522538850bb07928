"""Proposes external tables: types are given, key and day are looked for."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from backfill_assets.days import DayRange
from backfill_assets.proposal.declaration_text import Proposal
from backfill_assets.proposal.external_text import TableOfOthers, external_declaration
from backfill_assets.proposal.field_types import typed_field
from backfill_assets.proposal.questions import questions_in
from backfill_assets.proposal.roles import proposed_roles
from backfill_assets.proposal.table_sample import find_table, sampled_table
from backfill_assets.text import format_count

_ORDERED = ("tinyint", "smallint", "int", "bigint", "date", "timestamp")


@dataclass(frozen=True)
class ProposedTable:
    """``days`` is None without a day."""

    text: str
    days: DayRange | None
    questions: int


def proposed_table(name: str, package: str, location: str, taken: Collection[str] = ()) -> ProposedTable:
    """Named like its folder, or the dataset if that is no name or ``taken``.

    Raises :class:`InvalidRequest` for a table without rows or that cannot be opened.
    """
    table = find_table(location)
    with sampled_table(table) as (profile, rows, text_days):
        fields = tuple(typed_field(each, profile.rows) for each in profile.fields)
        asked = [replace(each, type="date") if each.name in text_days else each for each in fields]
        of_folders = table.files[-1].partition.keys()
        asked.sort(key=lambda each: each.name not in of_folders)  # Partition columns first.
        days = {each.name: seen for each in asked if each.is_time and (seen := rows.days(each.name))}
        roles = proposed_roles(name, asked, rows, days, landed=False)
        ordered = [each.name for each in asked if each.type in _ORDERED or each.type.startswith("decimal")]
        ranges = {each: rows.least_and_greatest(each) for each in ordered}
    day = days.get(roles.day)
    proposal = Proposal(
        name=name,
        package=package,
        said=f"{format_count(profile.rows, 'row')} of {location}",
        rows=profile.rows,
        fields=fields,
        roles=roles,
        first_day=(table.first_day(roles.day) or day.first) if day else None,
        most_rows=day.most_rows if day else profile.rows,
        ranges=ranges,
    )
    is_moment = table.types.get(roles.day) == "timestamp"
    text = external_declaration(
        proposal, TableOfOthers(_table_name(location, name, taken), location, table.is_delta, table.left, is_moment)
    )
    return ProposedTable(text, DayRange(day.first, day.last) if day else None, sum(1 for _ in questions_in(text)))


def _table_name(location: str, dataset: str, taken: Collection[str]) -> str:
    folder = location.rstrip("/").rpartition("/")[2]
    can_be = re.fullmatch("[a-z][a-z0-9_]*", folder) and folder not in {*taken, f"fact_{dataset}", f"report_{dataset}"}
    return folder if can_be else dataset
