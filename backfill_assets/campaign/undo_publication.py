"""What the publication of an undo says: days that are put back, their origins, versions of steps, and a notice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date

from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse.campaign_journal import shown_name
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import (
    Before,
    CurrentVersion,
    DayChange,
    DayContent,
    Expected,
    Notice,
    Origin,
    Prepared,
    Publication,
    Switch,
    TableChange,
)
from backfill_assets.publish.publisher import Publisher
from backfill_assets.text import format_count, format_ranges

_UNDONE, _BACK = "Undone: ", "In force again: "


def undo_switches(publication: Publication, current: Mapping[str, CurrentVersion]) -> dict[str, Switch]:
    """``former_by`` is as of now: a later switch may have been undone."""
    return {
        step: Switch(
            version=switch.former,
            former=switch.version,
            former_by=current[step].publication if step in current else "",
        )
        for step, switch in publication.switches.items()
    }


def undoing(prepared: Prepared, request: Publication) -> Publication:
    undone = prepared.publication
    made = request.provenance.model_copy(
        update={
            "campaign": undone.provenance.campaign,
            "undoes": undone.id,
            "first_undone": undone.provenance.first_undone or undone.id,
            "withdraws": not undone.provenance.withdraws,
        }
    )
    notice = _notice(prepared, request) if undone.provenance.campaign else None
    return request.model_copy(update={"provenance": made, "notice": notice})


def _notice(prepared: Prepared, request: Publication) -> Notice:
    undone = prepared.publication
    earlier = undone.notice
    stale = (
        f"{table}: stale until it is built again: {format_ranges(days)}."
        for table, days in request.leaves_stale.items()
    )
    return Notice(
        title=_title(earlier.title if earlier else shown_name(undone.provenance.campaign)),
        lines=(*(f"{change.table}: {undone_text(prepared, change)}." for change in request.tables), *stale),
        reports=earlier.reports if earlier else tuple(change.table for change in request.tables),
        approved_by=request.provenance.launched_by,
        undo=f"backfill rollback {request.id}",
        dataset=earlier.dataset if earlier else "",
    )


def undone_text(prepared: Prepared, change: TableChange) -> str:
    before = prepared.before.get(change.table, {})
    gone = [day for day in change.days if day.content is None and not day.adds]
    back = [day for day in change.days if day not in gone and _is_as_before(day, before.get(day.day))]
    again = [day for day in change.days if day not in gone and day not in back]
    own = [day for day in again if day.day in before]
    rows = sum(_rows(day.content) - _rows(before[day.day].content) for day in own)
    more = f"{format_count(abs(rows), 'row')} {'more' if rows > 0 else 'fewer'} than before" if rows else "as many rows"
    parts = {
        "as before": len(back),
        "withdrawn, since published first by what is undone": len(gone),
        f"staged again from what there is now ({more})": len(own),
        "staged again because they read what changed": len(again) - len(own),
    }
    return "; ".join(f"{count:,} {text}" for text, count in parts.items() if count)


def _is_as_before(day: DayChange, before: Before | None) -> bool:
    return before is not None and (day.adds, day.content) == (before.files, before.content)


def _rows(content: DayContent | None) -> int:
    return content.rows if content else 0


def _title(undone: str) -> str:
    if undone.startswith(_UNDONE):
        return _BACK + undone.removeprefix(_UNDONE)
    return _UNDONE + undone.removeprefix(_BACK)


def origin_before(prepared: Prepared, key: TableDay, by: str) -> Origin:
    """The origin of ``key`` after ``by`` has put its before-image back. A day of appended rows ceases to have only
    gained rows.
    """
    back = prepared.before[key.table][key.day].origin.put_back(by, prepared.publication)
    return replace(back, computed_by=by, gained_by="") if prepared.change(key.table).mode == "append" else back


def main_schema(publisher: Publisher, table: str) -> str:
    """Main's present schema: columns added since stay, and read as null in older files."""
    main = MainTable.open(publisher.storage, table)
    if main is None:
        raise PublicationRefused(f"The table {table} does not exist any more.")
    return str(main.handle.schema().to_json())


def put_back(
    before: Before,
    day: date,
    expected: Expected,
    *,
    made_of: Mapping[str, DayRange] | None = None,
    origin: Origin | None = None,
) -> DayChange:
    return DayChange(
        day=day,
        adds=before.files,
        content=before.content,
        expected=expected,
        made_of=made_of if before.content is not None else None,
        origin=origin,
    )
