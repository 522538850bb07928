"""The meaning of a query's schemas: ``main`` is now, ``"as of MOMENT"`` a moment, any other a timeline.

Main is read once for a query: all tables are of one closed log entry, whatever is published meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from backfill_assets import clock
from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.log import Head, PublicationLog
from backfill_assets.publish.pinned import pinned_versions
from backfill_assets.state.view import View, find_moment, is_version
from backfill_assets.text import suggest_or_list
from backfill_assets.timeline.view import find_place

if TYPE_CHECKING:
    import pyarrow.dataset as ds

MAIN = "main"
_AS_OF = "as of "
Meant = Callable[[str], str]


def as_typed(text: str) -> str:
    return text


def moment_in(schema: str) -> str | None:
    return schema[len(_AS_OF) :].strip() if schema.lower().startswith(_AS_OF) else None


def schema_of(as_of: str, on: str) -> str:
    """Raises :class:`InvalidRequest` if both are given."""
    if as_of and on:
        raise InvalidRequest(
            "A table is read as of a moment, or on a timeline.",
            hint=f'Name the other one in the query: FROM TABLE JOIN "{_AS_OF}{as_of}".TABLE USING (...)',
        )
    return f"{_AS_OF}{as_of}" if as_of else on or MAIN


@dataclass(frozen=True)
class Moments:
    """Views by schema, found once. ``moment_meant`` and ``timeline_meant`` complete ids and names."""

    storage: Storage
    moment_meant: Meant = as_typed
    timeline_meant: Meant = as_typed
    _found: dict[str, View] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def _log(self) -> tuple[PublicationLog, Head]:
        log = PublicationLog(self.storage)
        return log, log.head()

    def view(self, schema: str, tables: Collection[str] = ()) -> View:
        """Only ``tables`` of main are looked at, if given. Raises :class:`InvalidRequest` before the first publication,
        and for an unknown publication or timeline.
        """
        key = schema.lower()
        if key not in self._found:
            self._found[key] = self._find(schema, tables)
        return self._found[key]

    def _find(self, schema: str, tables: Collection[str]) -> View:
        if schema.lower() == MAIN:
            log, head = self._log
            known, asked = head.state.versions, {each.lower() for each in tables}
            named = [table for table in known if not asked or table.lower() in asked]
            return View(self.storage, head.version, {**known, **pinned_versions(log, head, named)}, MAIN)
        if (moment := moment_in(schema)) is None:
            return View.of(self.storage, find_place(self.storage, self.timeline_meant(schema), clock.now()))
        meant = self.moment_meant(moment)
        if is_version(meant):
            raise InvalidRequest(
                f"{meant} is a version of one table, and a query reads tables of one moment.",
                hint="Name a publication (backfill history) or a UTC time, such as 2017-06-01T12:00.",
            )
        return find_moment(self.storage, meant, "")


def table_in(view: View, name: str) -> str | None:
    """In any case, as in SQL."""
    return next((table for table in view.tables if table.lower() == name.lower()), None)


def no_table(view: View, name: str) -> InvalidRequest:
    hint = suggest_or_list(name, view.tables, "Tables") if view.tables else "backfill status shows what there is."
    return InvalidRequest(f"{view.name} has no table {name!r}.", hint=hint)


def dataset_in(view: View, table: str) -> ds.Dataset:
    """Lazy. After a Delta log's clean-up it has the files that publications brought."""
    published = view.table(table)
    if published is None:
        raise no_table(view, table)
    try:
        return published.dataset()
    except LakehouseUnusable:
        if view.name == MAIN:
            raise
        return view.dataset(table)


def said_of(views: Mapping[str, View]) -> dict[str, str]:
    """What each schema was, for readers."""
    return {
        schema: f"entry {view.sequence} of the publication log" if view.name == MAIN else view.name
        for schema, view in views.items()
    }
