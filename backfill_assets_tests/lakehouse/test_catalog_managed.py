"""A table whose commits a catalog decides on is refused by its name, however it is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from backfill_assets.lakehouse.catalog_managed import CatalogManaged, require_own_log
from backfill_assets.lakehouse.delta_log import read_log, read_transactions, removed_files, schema_at
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets_tests.protocol.lake import D1, Lake

pytestmark = pytest.mark.protocol

TABLE = "fact_daily_revenue"


def test_a_table_that_is_made_by_hand_is_refused(tmp_path: Path) -> None:
    """Its log has what the protocol asks for, and commits that only the catalog knows."""
    log = tmp_path / TABLE / "_delta_log"
    (log / "_staged_commits").mkdir(parents=True)
    features = ["catalogManaged", "vacuumProtocolCheck"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features}
    schema = {"type": "struct", "fields": [{"name": "day", "type": "date", "nullable": True, "metadata": {}}]}
    metadata = {"id": "3f", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(schema)}
    properties = {"delta.enableInCommitTimestamps": "true"}
    lines = (
        {"commitInfo": {"operation": "CREATE TABLE", "timestamp": 1, "inCommitTimestamp": 1}},
        {"protocol": {**protocol, "writerFeatures": [*features, "inCommitTimestamp"]}},
        {"metaData": {**metadata, "partitionColumns": ["day"], "configuration": properties}},
    )
    (log / f"{0:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (log / "_staged_commits" / f"{1:020d}.8e1c.json").write_text(json.dumps(lines[0]) + "\n")
    storage = Storage(str(tmp_path))
    main = MainTable(storage, TABLE, 0)
    reads: tuple[Callable[[], object], ...] = (
        lambda: read_log(storage, TABLE, 0),
        lambda: read_transactions(storage, TABLE, 0),
        lambda: removed_files(storage, TABLE, 0),
        lambda: schema_at(storage, TABLE, 0),
        lambda: main.handle,
        main.state,
    )
    for read in reads:
        with pytest.raises(CatalogManaged) as refused:
            read()
        assert str(refused.value).startswith(f"{TABLE} cannot be read: it is a catalog-managed table (table feature ")


def test_the_newest_protocol_counts_in_a_checkpoint_too(lake: Lake) -> None:
    """A feature that was dropped forbids nothing."""
    lake.publish("first", {"t": {D1: ["a"]}})
    handle = DeltaTable(lake.storage.uri("t"))
    handle.create_checkpoint()
    assert read_log(lake.storage, "t", handle.version()).active
    managed = {"protocol": {"readerFeatures": None, "writerFeatures": ["catalogOwned-preview"]}}
    require_own_log(TABLE, [[managed], [{"protocol": {"writerFeatures": ["appendOnly"]}}]])
    with pytest.raises(CatalogManaged):
        require_own_log(TABLE, [[{"protocol": None}], [managed], [{"add": {}}]])
