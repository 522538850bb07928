"""Compaction: a publication that preserves content, so nothing becomes stale.

Maintenance compacts whole days; beside a stream, only small files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.judge.compare import is_balanced
from backfill_assets.judge.engine import database, select_rows
from backfill_assets.lakehouse.arrow_dataset import dataset_of
from backfill_assets.lakehouse.delta_log import AddedFile
from backfill_assets.lakehouse.main_table import PARTITION_COLUMN, MainTable, of_days
from backfill_assets.lakehouse.records import (
    DayChange,
    Provenance,
    Publication,
    TableChange,
)
from backfill_assets.lakehouse.timelines import StagedAs, Timeline
from backfill_assets.lakehouse.written_files import write_folder, written_files
from backfill_assets.model.measure import is_hash
from backfill_assets.publish.publisher import Conflict, Pin, Published, Publisher
from backfill_assets.publish.small_files import files_to_compact

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_BATCH_ROWS = 64 * 1024
_ROW_GROUP_BYTES = 32 * 1024 * 1024
"""Uncompressed; memory is a few times this."""
STAGED_AS = StagedAs(input_fingerprint="compaction")
_SIDE = "its side"


Choose = Callable[[Collection[AddedFile]], Collection[str]]


def all_files(files: Collection[AddedFile]) -> Collection[str]:
    return [file.path for file in files]


def compact_small_files(
    publisher: Publisher,
    table: str,
    days: Iterable[date],
    *,
    provenance: Provenance | None = None,
    transaction: str = "",
) -> Published | Conflict | None:
    """Merge small files after a stream's batch; None without such days. Days published meanwhile wait for the next."""
    main = MainTable.open(publisher.storage, table)
    many = [day for day, files in main.state().of_days(days).items() if files_to_compact(files)] if main else []
    if not many:
        return None
    id = f"{clock.now():%Y%m%dt%H%M%S}-compact-{table.replace('_', '-')}-{clock.token(4)}"
    return compact(
        publisher, table, many, id=id, provenance=provenance, choose=files_to_compact, transaction=transaction
    )


def compact(
    publisher: Publisher,
    table: str,
    days: Iterable[date],
    *,
    id: str,
    provenance: Provenance | None = None,
    choose: Choose = all_files,
    transaction: str = "",
) -> Published | Conflict | None:
    """Rewrite each day's chosen files into one; None if no day has two. Days published meanwhile come back as
    :class:`Conflict`.
    """
    pin = publisher.pin({table: list(days)}, {})
    main = MainTable.open(publisher.storage, table)
    several = sorted(day for (_, day), expected in pin.expected.items() if len(expected.files) > 1)
    if main is None or not several:
        return None
    if moved := moved_since(main, pin, several):
        return moved
    files = main.state().of_days(several)
    paths = {day: frozenset(choose(files[day])) for day in several}
    chosen = {day: [file for file in files[day] if file.path in some] for day, some in paths.items() if len(some) > 1}
    if not chosen:
        return None
    main.require_writable({day: {} for day in chosen}, of_days(main.state(), chosen))
    # A name for each attempt: a dead one may have left files with older rows.
    timeline = Timeline(publisher.storage, table, f"compact-{id}-{clock.token(4)}")
    _rewrite(main, timeline, chosen)
    kept = {day: tuple(file for file in files[day] if file.path not in paths[day]) for day in chosen}
    request = compaction_of(timeline, pin, kept, id, provenance or Provenance())
    return publisher.publish(request.model_copy(update={"transaction": transaction}))


def moved_since(main: MainTable, pin: Pin, days: Iterable[date]) -> Conflict | None:
    """Rows are read from the files that are expected: main may have moved in between, and back."""
    files = main.state().by_day()
    moved = {day for day in days if files.get(day, frozenset()) != set(pin.expected[TableDay(main.name, day)].files)}
    return Conflict({main.name: frozenset(moved)}, reasons=(f"{main.name} is being published to",)) if moved else None


def _rewrite(main: MainTable, timeline: Timeline, chosen: Mapping[date, Sequence[AddedFile]]) -> None:
    folder, rows = write_folder(), dataset_of(main.storage, main.name, main.handle, chosen)
    datasets = {day: _only(rows, day, files) for day, files in chosen.items()}
    for day, dataset in datasets.items():
        _write(timeline, f"{folder}/{PARTITION_COLUMN}={day}", dataset, day)
    written = written_files(timeline.storage, timeline.path, folder)
    _require_same_rows(main, timeline, chosen, written, {day: _columns(each) for day, each in datasets.items()})
    timeline.add(written, str(main.handle.schema().to_json()), dict.fromkeys(chosen, STAGED_AS))


def _require_same_rows(
    main: MainTable,
    timeline: Timeline,
    chosen: Mapping[date, Sequence[AddedFile]],
    written: Sequence[AddedFile],
    columns: Mapping[date, pa.Schema],
) -> None:
    with database(threads=1) as duckdb:
        for day, files in chosen.items():
            sides = {
                1: [file.below(main.name) for file in files],
                -1: [file.below(timeline.path) for file in written if file.day == str(day)],
            }
            compared = columns[day].append(pa.field(_SIDE, pa.int64()))
            rows = select_rows(duckdb, main.storage, compared, _SIDE, sides)
            if not is_balanced(duckdb, rows, compared, _SIDE):
                raise PublicationRefused(f"Compacting {main.name} {day} changed its content; nothing was published.")


def _only(rows: ds.FileSystemDataset, day: date, files: Collection[AddedFile]) -> ds.FileSystemDataset:
    import pyarrow.dataset as ds

    paths = {file.path for file in files}
    fragments = [each for each in rows.get_fragments(filter=pc.field(PARTITION_COLUMN) == day) if each.path in paths]
    if len(fragments) != len(paths):
        raise PublicationRefused(f"Only {len(fragments)} of {len(paths)} files of {day} can be read to compact them.")
    hashes = sorted({name for each in fragments for name in each.physical_schema.names if is_hash(name)})
    columns = pa.schema([*rows.schema, *((name, pa.int64()) for name in hashes)])
    return ds.FileSystemDataset(fragments, columns, rows.format, rows.filesystem)


def _columns(dataset: ds.Dataset) -> pa.Schema:
    return dataset.schema.remove(dataset.schema.get_field_index(PARTITION_COLUMN))


def _write(timeline: Timeline, folder: str, dataset: ds.Dataset, day: date) -> None:
    columns = _columns(dataset)
    with timeline.storage.parquet_writer(f"{timeline.path}/{folder}/part-0.zstd.parquet", columns) as writer:
        for rows in _row_groups(_batches(dataset, day)):
            writer.write_table(rows.select(columns.names), row_group_size=max(1, rows.num_rows))


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(each.nbytes for each in held) >= _ROW_GROUP_BYTES:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


def _batches(dataset: ds.Dataset, day: date) -> Iterator[pa.RecordBatch]:
    """Arrow would read ahead, and keep what it has read."""
    import pyarrow.dataset as ds

    batches: Iterator[pa.RecordBatch] = dataset.scanner(
        filter=pc.field(PARTITION_COLUMN) == day,
        batch_size=_BATCH_ROWS,
        batch_readahead=0,
        fragment_readahead=0,
        fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True),
        use_threads=False,
    ).to_batches()
    return batches


def compaction_of(
    timeline: Timeline,
    pin: Pin,
    kept: Mapping[date, tuple[AddedFile, ...]],
    id: str,
    provenance: Provenance,
) -> Publication:
    staged, changes = timeline.days(), []
    for day, files in kept.items():
        key = TableDay(timeline.table, day)
        adds = (*files, *staged[day].files)
        changes.append(DayChange(day=day, adds=adds, content=pin.content(key), expected=pin.expected[key]))
    change = TableChange(table=timeline.table, table_schema=timeline.schema(), days=tuple(changes))
    return Publication(id=id, kind="compact", tables=(change,), provenance=provenance)
