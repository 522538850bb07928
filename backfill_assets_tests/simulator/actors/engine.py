"""What engines do past the protocol beside rows: properties come and go, a commit is lost, the log is put in shape.

And a process of a newer release, which stages a column more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties
from deltalake._internal import RemoveAction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from backfill_assets.lakehouse.delta_log import newest_version, open_table
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.files import LOG_TABLE, statistics
from backfill_assets_tests.simulator.judges.tables import FOREIGN
from backfill_assets_tests.simulator.world import TABLES, PlayedLife, World

_MOST_COLUMNS = 2
_ONLY_APPENDED, _TRACKED = "delta.appendOnly", "rowTracking"
_WRITTEN = ["appendOnly", "invariants"]
_ENTRY = "part-00000-of-{name}.parquet"
VACUUMED_AFTER = timedelta(days=8)
"""No engine deletes what is younger, unless a person turns its check off."""


def alter(life: PlayedLife) -> None:
    """A property or a feature with which a table cannot be written, or not all of it, comes, and goes again."""
    table = life.draw.choice(TABLES)
    if newest_version(life.storage, table) is None:
        return
    how = life.draw.choice([_ONLY_APPENDED, _TRACKED])
    if _altered(life.storage, table, "" if _is_altered(life.storage, table) else how, life.new_id("altered")):
        life.world.tally["altered"] += 1
        life.world.put_right[f"{table} is altered"] = partial(_give_back, life.world, table)


def _give_back(world: World, table: str) -> None:
    if _is_altered(world.storage, table):
        assert _altered(world.storage, table, "", "given back")


def _is_altered(storage: Storage, table: str) -> bool:
    handle = open_table(storage, table)
    tracked = _TRACKED in (handle.protocol().writer_features or ())
    return tracked or handle.metadata().configuration.get(_ONLY_APPENDED) == "true"


def _altered(storage: Storage, table: str, how: str, name: str) -> bool:
    """Whether it was done: others may be faster. Without ``how``, all is taken back."""
    handle = open_table(storage, table)
    metadata, protocol = handle.metadata(), handle.protocol()
    configuration = {**metadata.configuration, _ONLY_APPENDED: "true" if how == _ONLY_APPENDED else "false"}
    features = [*_WRITTEN, *([_TRACKED, "domainMetadata"] if how == _TRACKED else [])]
    demands = how == _TRACKED or protocol.writer_features
    actions = [
        {"commitInfo": {"operation": "SET TBLPROPERTIES", "timestamp": 0, FOREIGN: name}},
        {"metaData": _metadata(handle, configuration)},
        *(
            [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}}]
            if demands
            else []
        ),
    ]
    return storage.put_if_absent(_commit_file(table, handle.version() + 1), _lines(actions))


def _metadata(handle: Any, configuration: Mapping[str, str]) -> dict[str, object]:
    metadata = handle.metadata()
    return {
        "id": str(metadata.id),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": str(handle.schema().to_json()),
        "partitionColumns": list(metadata.partition_columns),
        "configuration": dict(configuration),
    }


def _commit_file(table: str, version: int) -> str:
    return f"{table}/_delta_log/{version:020d}.json"


def _lines(actions: list[dict[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(action)}\n" for action in actions).encode()


def overwrite(life: PlayedLife) -> None:
    """A writer without put-if-absent puts an empty commit over one of a publication that is under way.

    Not while anybody is in the middle of something: nothing could protect who acts on what he has read there. Nor where
    a checkpoint has the version, which is read from there.
    """
    world = life.world
    world.follow()
    if not world.all_rest_but(life):
        return
    for table in TABLES:
        judge = world.tables[table]
        file = _commit_file(table, judge.version)
        if judge.newest_is_of(world.log.open) and not life.storage.exists(file.replace(".json", ".checkpoint.parquet")):
            info = {"operation": "foreign", "timestamp": 0, FOREIGN: life.new_id("over")}
            judge.step_back()
            life.storage.write_bytes(file, _lines([{"commitInfo": info}]))
            world.tally["overwritten"] += 1
            return


def widen(life: PlayedLife) -> None:
    """Who stages from now on has one column more; those who staged before do not."""
    columns = life.world.columns
    if sum(columns.values()) < _MOST_COLUMNS:
        columns[life.draw.choice(["fact", "raw"])] += 1
        life.world.tally["widened"] += 1
    life.process.rest()


def maintain_the_log(life: PlayedLife) -> None:
    """OPTIMIZE or VACUUM of the publication log itself, as a platform runs them over all tables."""
    if newest_version(life.storage, LOG_TABLE) is not None:
        (_optimise if life.draw.random() < 0.7 else _vacuum)(life)


def _optimise(life: PlayedLife) -> None:
    """All of its files become one, which carries no head: OPTIMIZE knows of none."""
    handle = open_table(life.storage, LOG_TABLE)
    adds = handle.get_add_actions(flatten=True)
    paths, sizes = (pa.table(adds).column(name).to_pylist() for name in ("path", "size_bytes"))
    if len(paths) < 2:
        return
    rows = pa.concat_tables([life.storage.read_parquet(f"{LOG_TABLE}/{path}") for path in paths])
    path, moment = _ENTRY.format(name=life.new_id("optimised")), life.world.clock.milliseconds()
    life.world.optimised.add(f"{LOG_TABLE}/{path}")
    size = life.storage.write_parquet(f"{LOG_TABLE}/{path}", rows)
    new = AddAction(path, size, {}, moment, False, statistics(rows))
    gone = [RemoveAction(path, False, moment, size, {}) for path, size in zip(paths, sizes, strict=True)]
    properties = CommitProperties(max_commit_retries=0)
    try:
        handle.create_write_transaction([new, *gone], "append", handle.schema(), commit_properties=properties)
    except CommitFailedError:
        return
    life.world.optimised.remove(f"{LOG_TABLE}/{path}")
    life.world.tally["log optimised"] += 1


def _vacuum(life: PlayedLife) -> None:
    """Files that the log names no more, and that are old enough; below folders with an underscore are none of them.

    Engines promise each other that nobody works for longer: a file that one is about to name stays.
    """
    life.world.clock.pass_on(VACUUMED_AFTER + timedelta(hours=1))
    oldest = life.world.clock.milliseconds() - VACUUMED_AFTER // timedelta(milliseconds=1)
    found, spared = life.storage.files(LOG_TABLE), set(life.world.optimised)
    named = pa.table(open_table(life.storage, LOG_TABLE).get_add_actions(flatten=True)).column("path").to_pylist()
    kept = spared.union(f"{LOG_TABLE}/{path}" for path in named)
    files = [each for each in found if each.path not in kept]
    for file in (each for each in files if each.modified_ms < oldest):
        life.storage.delete(file.path)
        life.world.tally["log vacuumed"] += 1
