"""Specs of assets and checks of a step's tables, from declared fields: pandera would take a second to import."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import dagster as dg

from backfill_assets.days import Cadence
from backfill_assets.defs.checks import FRESH, WATCHDOG
from backfill_assets.defs.log_checks import LOG_CHECK_DESCRIPTIONS, log_checks
from backfill_assets.defs.look_back import LATER_DAYS, later_days_text
from backfill_assets.defs.partitions import Chain, partition_mapping
from backfill_assets.model.checks import asked_of
from backfill_assets.model.contract import DeclaredField, declared_types
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import AsOf, DayRule, Layer, Reads, Step, Table
from backfill_assets.model.lineage import column_lineage
from backfill_assets.quality import watchdogs
from backfill_assets.quality.gates import TableCheck, checks_of
from backfill_assets.text import format_count

CADENCE_TAG = "cadence"
FORCE_TAG = "backfill/force"
VERIFY_TAG = "backfill/verify"
"""Tag: also compute whole the days that a stream has extended, and publish those that differ."""
REPAIR_TAG = "backfill/repair"
"""Tag of a repair: what a person rolls back stays."""
VERSION_TAG = "backfill/version"
"""Tag: the version to build with; ``as published`` keeps each day's."""
BEGIN, UNDER_THE_HOOD = "begin", "under_the_hood"
"""First and last of the groups, which the UI lists by name."""
_GROUPS: dict[Layer, str] = {
    "external": "tables_of_others",
    "raw": "raw",
    "bronze": "bronze",
    "quarantine": "bronze",
    "fact": "fact",
    "report": "reports",
}
_FACT = "fact_"


def asset_specs(
    step: Step, dataset: Dataset, chain: Chain, later: Mapping[str, Mapping[str, int]], keys: Keys
) -> list[dg.AssetSpec]:
    """``later``: by table, the steps that use its rows on later days, and for how many days."""
    return [_asset_spec(table, step, dataset, chain.name, later.get(table.name, {}), keys) for table in step.tables]


Keys = Mapping[str, dg.AssetKey]


def keys_of_others(steps: Iterable[Step]) -> Keys:
    others = (step.external for step in steps if step.external)
    return {each.name: dg.AssetKey(list(each.asset_key) or each.name) for each in others}


def external_spec(step: Step, dataset: Dataset, chain: Chain, key: dg.AssetKey) -> dg.AssetSpec:
    external, (table,) = step.external, step.tables
    if external is None:
        raise LookupError(f"{step.name} is no table of others.")
    return dg.AssetSpec(
        key=key,
        description=f"{table.description}\n\nOthers write it; it is read in place, at `{external.location}`.",
        group_name=_GROUPS[table.layer],
        kinds={"delta" if external.written == "delta" else "parquet"},
        partitions_def=chain.of(step),
        tags={"dataset": dataset.name, "layer": table.layer},
        metadata={"dagster/uri": external.location, "dagster/column_schema": column_schema(table)},
    )


def check_specs(step: Step, chain: Chain) -> list[dg.AssetCheckSpec]:
    return [
        dg.AssetCheckSpec(name=name, asset=table.name, description=text, blocking=blocks, partitions_def=chain.of(step))
        for table in step.tables
        for name, text, blocks in (
            *((check.name, _gate_description(check), check.blocks) for check in checks_of(table, step)),
            (FRESH, _FRESH_DESCRIPTION, False),
            (WATCHDOG, _watchdog_description(table), False),
            *((name, LOG_CHECK_DESCRIPTIONS[name], False) for name in log_checks(table, step)),
        )
    ]


def asset_description(table: Table, step: Step) -> str:
    key = ", ".join(f"`{column}`" for column in table.key)
    row = f"One row per {key} and {step.cadence.noun}." if key else "Rows are appended as they arrive."
    return f"{table.description}\n\n{row} {_made_how(step)}"


def _made_how(step: Step) -> str:
    if step.source is not None:
        return f"Ingested from the landed files of `{step.source.name}`, each of them once."
    version = step.version()
    reads = "".join(f"\n- `{reads.table}`, {_days_read(reads, step.cadence)}" for reads in version.reads)
    return f"Version `{version.name}`: {version.description[0].lower()}{version.description[1:]}\n\nMade of:\n{reads}"


def _days_read(reads: Reads, cadence: Cadence) -> str:
    if cadence is not Cadence.DAILY:
        published = " that are published" if reads.partial else ""
        return f"the days of the {cadence.noun}{published}"
    if isinstance(reads, AsOf):
        return "its newest day with rows, up to the day"
    if reads.first == 0:
        return "the same day"
    last = "the day itself" if reads.last == 0 else f"{format_count(-reads.last, 'day')} before"
    return f"from {format_count(-reads.first, 'day')} before to {last}"


def _asset_spec(
    table: Table, step: Step, dataset: Dataset, chain: str, later: Mapping[str, int], keys: Keys
) -> dg.AssetSpec:
    notes = {LATER_DAYS: dg.MetadataValue.md(later_days_text(table.name, later))} if later else {}
    return dg.AssetSpec(
        key=table.name,
        deps=_deps(step, keys),
        description="\n\n".join([asset_description(table, step), *(text.value or "" for text in notes.values())]),
        group_name="fact" if table.name.startswith(_FACT) else _GROUPS[table.layer],
        owners=list(dataset.owners),
        kinds={"spark", "delta"},
        code_version=step.code_version,
        tags={
            "dataset": dataset.name,
            "layer": table.layer,
            CADENCE_TAG: step.cadence.value,
            # `tag:"daily"="sales"` selects, in the UI, tables with the same days.
            step.cadence.value: chain,
        },
        metadata={"dagster/table_name": table.name, "dagster/column_schema": column_schema(table), **notes},
    )


def _deps(step: Step, keys: Keys) -> Sequence[dg.AssetDep]:
    if step.source is not None:
        return []
    return [
        dg.AssetDep(keys.get(reads.table, reads.table), partition_mapping=partition_mapping())
        for reads in step.version().reads
    ]


_FRESH_DESCRIPTION = (
    "The day is built from what is published of its inputs. A stale day is a warning, which the sensor repairs puts "
    "right; a day that was withdrawn is not fresh either."
)


def _gate_description(check: TableCheck) -> str:
    listed = "".join(f"\n- `{rule.name}` ({_kind(rule)}): {rule.description}" for rule in check.rules)
    return f"{_BLOCKS if check.blocks else _WARNS}{listed}"


_BLOCKS = "Judges the staged rows. A day that breaks one of its rules is not published; a warning only informs."
_WARNS = "Judges the staged rows. A day that breaks one of its rules is published with a warning."


def _kind(rule: DayRule) -> str:
    return rule.dimension if rule.severity == "error" else f"{rule.dimension}, a warning"


def _watchdog_description(table: Table) -> str:
    listed = "".join(f"\n- `{rule.name}`: {rule.description}" for rule in watchdogs.watched_rules(table))
    return (
        f"Published days of {table.name}, read again by the job watchdogs; the sensor repairs builds again what fails."
        f"\n- `{watchdogs.FILES}`: The files are those of the day's last publication, and there."
        f"\n- `{watchdogs.CONTENT}`: Rows and checksum are what the publication log says.{listed}"
    )


_LINEAGE = "dagster/column_lineage"


def column_schema(table: Table) -> dg.TableSchema:
    types = declared_types(table.contract)
    return dg.TableSchema(
        columns=[_column(name, types[name], field, table.key) for name, field in table.contract.fields().items()],
        constraints=dg.TableConstraints(other=[f"key: {', '.join(table.key)}"] if table.key else []),
    )


def lineage_metadata(
    step: Step, table_named: Callable[[str], Table], keys: Keys
) -> dict[str, dict[str, dg.MetadataValue]]:
    """Raw tables have none: their columns come from files."""
    metadata: dict[str, dict[str, dg.MetadataValue]] = {}
    for table in step.tables:
        origins = column_lineage(step, table, table_named)
        deps = {
            column: [dg.TableColumnDep(keys.get(each.table, dg.AssetKey(each.table)), each.column) for each in columns]
            for column, columns in origins.items()
        }
        origin = dg.MetadataValue.column_lineage(dg.TableColumnLineage(deps_by_column=deps))
        metadata[table.name] = {_LINEAGE: origin} if deps else {}
    return metadata


def _column(name: str, type_name: str, field: DeclaredField, key: tuple[str, ...]) -> dg.TableColumn:
    return dg.TableColumn(
        name=name,
        type=type_name,
        description=field.description,
        constraints=dg.TableColumnConstraints(
            nullable=field.nullable,
            unique=key == (name,),
            other=[kind.right(asked) for kind, asked in asked_of(field)],
        ),
    )
