"""Reads what is published, without a JVM: pinned, so that several tables belong together.

Every closed entry of the publication log keeps a map of Delta versions by table. A reader of all tables at one such map
(:func:`published_versions`) sees each publication in all of its tables or in none, also while another is under way::

    revenue = read_published(storage, "fact_daily_revenue")
    revenue.dataset().to_table(filter=pc.field("day") == date(2017, 3, 1))          # pyarrow
    duckdb.connect().register("revenue", revenue.dataset())                         # DuckDB: select ... from revenue

Spark takes ``uri`` and ``version`` of :func:`read_published`::

    SELECT * FROM delta.`<uri>` VERSION AS OF <version>
    spark.read.format("delta").option("versionAsOf", version).load(uri)

A reader of a table's folder without the map sees each publication of that one table whole or not at all, and no more is
promised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from deltalake.exceptions import DeltaError, TableNotFoundError

from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.lakehouse.arrow_dataset import arrow_dataset
from backfill_assets.lakehouse.records import DayState
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.past import Closed
from backfill_assets.publish.pinned import pinned_files, pinned_versions
from backfill_assets.text import suggest_name

if TYPE_CHECKING:
    import pyarrow.dataset as ds


@dataclass(frozen=True)
class PublishedTable:
    """``uri`` and ``version`` are for any Delta reader."""

    table: str
    uri: str
    version: int
    storage: Storage

    def dataset(self) -> ds.Dataset:
        """Lazy; a filter on ``day`` opens no file of other days. Raises :class:`LakehouseUnusable` if the version is
        gone.
        """
        try:
            return arrow_dataset(self.storage, self.table, self.version)
        except (DeltaError, TableNotFoundError) as error:
            raise LakehouseUnusable(
                f"{self.table} cannot be read at version {self.version}: {error}",
                hint="Versions are kept for the rollback window. Pin a newer publication (backfill history).",
            ) from error


def published_versions(storage: Storage, publication: str | None = None) -> Mapping[str, int]:
    """Delta versions by table, as of the last closed entry or the one that closed ``publication``. Raises
    :class:`InvalidRequest` if that is unknown or open.
    """
    if publication is None:
        log = PublicationLog(storage)
        head = log.head()
        return pinned_versions(log, head, head.state.versions)
    return closing_entry(storage, publication).versions


def read_published(storage: Storage, table: str, publication: str | None = None) -> PublishedTable:
    """``table`` as of the last closed entry, or of the entry that closed ``publication``.

    Raises :class:`InvalidRequest` if nothing was published to the table by then.
    """
    version = (
        pinned_version(storage, table) if publication is None else published_versions(storage, publication).get(table)
    )
    if version is None:
        then = f" when {publication} was published" if publication else ""
        raise InvalidRequest(f"Nothing was published to {table}{then}.", hint="backfill status shows what there is.")
    return PublishedTable(table, storage.uri(table), version, storage)


def pinned_version(storage: Storage, table: str) -> int | None:
    """The last closed entry's; None if nothing was published."""
    log = PublicationLog(storage)
    version = pinned_files(log, log.head(), table).version
    return version if version >= 0 else None


def closing_entry(storage: Storage, publication: str) -> Closed:
    """Raises :class:`InvalidRequest` if ``publication`` is unknown or open."""
    log = PublicationLog(storage)
    if found := log.closed(publication, maps=True):
        return found
    if log.files().rows([], publication=publication).num_rows:
        raise InvalidRequest(f"{publication} is still under way.", hint="Pin one that is closed: backfill history")
    raise unknown_publication(storage, publication)


def unknown_publication(storage: Storage, publication: str) -> InvalidRequest:
    hint = suggest_name(publication, publication_ids(storage), "backfill history lists the publications.")
    return InvalidRequest(f"There is no publication {publication!r}.", hint=hint)


def publication_ids(storage: Storage) -> list[str]:
    rows = PublicationLog(storage).files().rows(["publication"], event="prepared")
    return sorted(set(rows.column("publication").to_pylist()))


def published_day(storage: Storage, table: str, day: date, publication: str | None = None) -> DayState | None:
    """By the log: now, or when ``publication`` was closed; None if never published."""
    log = PublicationLog(storage)
    sequence = closing_entry(storage, publication).sequence if publication else log.head().version
    return log.states_at(sequence, [table], [day]).get(TableDay(table, day))


# ------------------------------------------------------------------ versions that publications made current


def read_switches(storage: Storage) -> dict[str, str]:
    """A step that is not named has its declared version."""
    return PublicationLog(storage).head().state.switches
