"""The OpenLineage event of a publication: its run, its job, what it read, and the tables that it brought.

A function of the log's record and the declarations; needs the extra ``lineage``. The run's id follows from the
publication: a repeated event is of the same run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from importlib.metadata import version
from typing import Any
from uuid import UUID

import attr
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    dataset_version_dataset,
    documentation_dataset,
    job_type_job,
    lifecycle_state_change_dataset,
    nominal_time_run,
    output_statistics_output_dataset,
    ownership_dataset,
    parent_run,
    schema_dataset,
    symlinks_dataset,
)
from openlineage.client.generated.base import (
    DatasetFacet,
    JobFacet,
    OutputDatasetFacet,
    RunFacet,
)
from openlineage.client.uuid import generate_static_uuid

from backfill_assets.lakehouse.records import Prepared, Publication, TableChange, is_of_stream
from backfill_assets.model.catalog import Catalog
from backfill_assets.model.declaration import Step, Table
from backfill_assets.model.lineage import column_lineage
from backfill_assets.text import format_ranges

NAMESPACE = "backfill_assets"
_PRODUCER = f"urn:backfill-assets:{version('backfill-assets')}"
_OVERWRITES = ("replace", "rollback")
_TOPIC = "kafka:"


@dataclass(frozen=True)
class ClosedPublication:
    prepared: Prepared
    at: datetime
    versions: Mapping[str, int]


@dataclass(frozen=True)
class LineagePlaces:
    """``lakehouse`` and ``landing`` are folders or addresses of buckets; ``topic`` is ``kafka://host:port/topic``."""

    lakehouse: str
    landing: str = ""
    topic: str = ""
    namespace: str = NAMESPACE


@attr.define
class PublicationRunFacet(RunFacet):
    publication: str
    kind: str
    run: str
    launchedBy: str  # noqa: N815 - as the names beside it in the event
    campaign: str
    gitCommit: str  # noqa: N815
    reason: str
    undoes: str
    days: dict[str, str]


def run_event(closed: ClosedPublication, places: LineagePlaces, declared: Catalog) -> RunEvent:
    """One event suffices: publishing takes no time."""
    return _Described(closed, places, declared).event()


def run_id(places: LineagePlaces, closed: ClosedPublication) -> str:
    return str(generate_static_uuid(closed.at, f"{places.lakehouse}/{closed.prepared.publication.id}".encode()))


def address(location: str) -> tuple[str, str]:
    """Namespace and name of a folder or an address, as OpenLineage spells them.

    >>> address("/data/lakehouse/fact_sales/"), address("s3://lake/prod/fact_sales")
    (('file', '/data/lakehouse/fact_sales'), ('s3://lake', 'prod/fact_sales'))
    """
    scheme, found, rest = location.rstrip("/").partition("://")
    if not found:
        return "file", scheme
    host, _, path = rest.partition("/")
    return f"{scheme}://{host}", path


@dataclass(frozen=True)
class _Described:
    closed: ClosedPublication
    places: LineagePlaces
    declared: Catalog

    @property
    def publication(self) -> Publication:
        return self.closed.prepared.publication

    def event(self) -> RunEvent:
        observed = [each for each in self.publication.tables if self._is_external(each.table)]
        brought = [each for each in self.publication.tables if each not in observed]
        return RunEvent(
            eventType=RunState.COMPLETE,
            eventTime=self.closed.at.astimezone(UTC).isoformat(),
            producer=_PRODUCER,
            run=Run(run_id(self.places, self.closed), facets=self._run_facets()),
            job=Job(self.places.namespace, self.job_name(), facets=self._job_facets()),
            inputs=[*self._inputs(), *self._landed(), *(InputDataset(*self._address(each.table)) for each in observed)],
            outputs=[self._output(each) for each in brought],
        )

    # -------------------------------------------------------------- run and job

    def job_name(self) -> str:
        """Few names: a campaign runs its datasets' job, a backfill of a table that table's."""
        tables = [each.table for each in self.publication.tables] or sorted(self.publication.switches)
        steps = dict.fromkeys(step.name if (step := self._step(name)) else name for name in tables)
        datasets = "+".join(dict.fromkeys(self._dataset(name) for name in tables))
        kind = self.publication.kind
        if self.publication.provenance.campaign and kind == "replace":
            return f"{datasets}.campaign"
        if kind in ("replace", "append") and len(steps) == 1:
            return f"{datasets}.{next(iter(steps))}"
        return f"{datasets}.{'publish' if kind in ('replace', 'append') else kind}"

    def _job_facets(self) -> dict[str, JobFacet]:
        streamed = is_of_stream(self.publication.id)
        kind = "STREAMING" if streamed else "BATCH"
        return {"jobType": job_type_job.JobTypeJobFacet(kind, "BACKFILL_ASSETS", "PUBLICATION", producer=_PRODUCER)}

    def _run_facets(self) -> dict[str, RunFacet]:
        found: dict[str, RunFacet] = {"backfill_publication": self._said()}
        days = sorted({day.day for change in self.publication.tables for day in change.days})
        if days:
            begins, ends = (datetime.combine(day, time(), UTC) for day in (days[0], days[-1] + timedelta(days=1)))
            found["nominalTime"] = nominal_time_run.NominalTimeRunFacet(
                begins.isoformat(), ends.isoformat(), producer=_PRODUCER
            )
        if _is_uuid(run := self.publication.provenance.run):
            job = parent_run.Job(self.places.namespace, "run")
            found["parent"] = parent_run.ParentRunFacet(parent_run.Run(run), job, producer=_PRODUCER)
        return found

    def _said(self) -> PublicationRunFacet:
        made = self.publication.provenance
        days = {each.table: format_ranges([day.day for day in each.days]) for each in self.publication.tables}
        return PublicationRunFacet(
            publication=self.publication.id,
            kind=self.publication.kind,
            run=made.run,
            launchedBy=made.launched_by,
            campaign=made.campaign,
            gitCommit=made.git_commit,
            reason=made.reason,
            undoes=made.undoes,
            days=days,
            producer=_PRODUCER,
        )

    # -------------------------------------------------------------- what it read

    def _inputs(self) -> Iterator[InputDataset]:
        for read in self.publication.inputs:
            found: dict[str, DatasetFacet] = {} if read.version is None else {"version": _version(read.version)}
            yield InputDataset(*self._address(read.table), facets=found)

    def _landed(self) -> Iterator[InputDataset]:
        for change in self.publication.tables:
            step = self._step(change.table)
            if change.mode != "append" or step is None or step.source is None:
                continue
            topics = {each.id.split(":")[2].partition("@")[0] for each in change.positions if _TOPIC in each.id[:6]}
            namespace, names = address(self.places.topic)
            yield from (InputDataset(namespace, name) for name in names.split(",") if name in topics)
            if self.places.landing and not topics:
                yield InputDataset(*address(f"{self.places.landing.rstrip('/')}/{step.source.name}"))

    # -------------------------------------------------------------- what it brought

    def _output(self, change: TableChange) -> OutputDataset:
        return OutputDataset(
            *self._address(change.table), facets=dict(self._facets(change)), outputFacets=self._statistics(change)
        )

    def _facets(self, change: TableChange) -> Iterator[tuple[str, DatasetFacet]]:
        name, step = change.table, self._step(change.table)
        table = self.declared.table(name) if step else None
        yield "schema", schema_dataset.SchemaDatasetFacet(list(_fields(change, table)), producer=_PRODUCER)
        alias = symlinks_dataset.Identifier(self.places.namespace, name, "TABLE")
        yield "symlinks", symlinks_dataset.SymlinksDatasetFacet([alias], producer=_PRODUCER)
        if name in self.closed.versions:
            yield "version", _version(self.closed.versions[name])
        if self.publication.kind in _OVERWRITES:
            how = lifecycle_state_change_dataset.LifecycleStateChange.OVERWRITE
            facet = lifecycle_state_change_dataset.LifecycleStateChangeDatasetFacet(how, producer=_PRODUCER)
            yield "lifecycleStateChange", facet
        if table is None or step is None:
            return
        yield (
            "documentation",
            documentation_dataset.DocumentationDatasetFacet(table.description, producer=_PRODUCER),
        )
        owners = [ownership_dataset.Owner(each) for each in self.declared.dataset_of(name).owners]
        yield "ownership", ownership_dataset.OwnershipDatasetFacet(owners, producer=_PRODUCER)
        if columns := self._columns(change, step, table):
            facet_of = column_lineage_dataset.ColumnLineageDatasetFacet
            yield "columnLineage", facet_of(columns, producer=_PRODUCER)

    def _columns(self, change: TableChange, step: Step, table: Table) -> dict[str, column_lineage_dataset.Fields]:
        """Only the current version's are known."""
        made_by = {day.content.code_version for day in change.days if day.content is not None}
        if step.is_origin or made_by != {step.code_version}:
            return {}
        found = column_lineage(step, table, self.declared.table)
        read = column_lineage_dataset.InputField
        return {
            column: column_lineage_dataset.Fields([read(*self._address(at.table), at.column) for at in origins])
            for column, origins in found.items()
        }

    def _statistics(self, change: TableChange) -> dict[str, OutputDatasetFacet]:
        files = [file for day in change.days for file in day.adds]
        rows = (sum(file.rows for file in day.adds) if day.content is None else day.content.rows for day in change.days)
        counted = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=sum(rows), size=sum(each.size for each in files), fileCount=len(files), producer=_PRODUCER
        )
        return {"outputStatistics": counted}

    # -------------------------------------------------------------- declarations

    def _step(self, table: str) -> Step | None:
        return self.declared.step(table) if table in self.declared.table_names else None

    def _dataset(self, table: str) -> str:
        return self.declared.dataset_of(table).name if self._step(table) else table

    def _is_external(self, table: str) -> bool:
        step = self._step(table)
        return step is not None and step.external is not None

    def _address(self, table: str) -> tuple[str, str]:
        step = self._step(table)
        external = step.external if step else None
        return address(external.location if external else f"{self.places.lakehouse.rstrip('/')}/{table}")


def _version(number: int) -> dataset_version_dataset.DatasetVersionDatasetFacet:
    return dataset_version_dataset.DatasetVersionDatasetFacet(str(number), producer=_PRODUCER)


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


# ------------------------------------------------------------------ columns


def _fields(change: TableChange, table: Table | None) -> Iterator[schema_dataset.SchemaDatasetFacetFields]:
    said = {name: each.description for name, each in table.contract.fields().items()} if table else {}
    yield from _struct_fields(json.loads(change.table_schema)["fields"], said)


def _struct_fields(
    fields: Iterable[Mapping[str, Any]], said: Mapping[str, str | None]
) -> Iterator[schema_dataset.SchemaDatasetFacetFields]:
    for number, each in enumerate(fields, 1):
        kind = each["type"]
        yield schema_dataset.SchemaDatasetFacetFields(
            name=each["name"],
            type=type_text(kind),
            description=said.get(each["name"]),
            ordinal_position=number,
            fields=list(_struct_fields(_inner(kind), {})),
        )


def _inner(kind: Any) -> Sequence[Mapping[str, Any]]:
    if isinstance(kind, str):
        return ()
    return kind["fields"] if kind["type"] == "struct" else _inner(kind.get("elementType", ""))


def type_text(kind: Any) -> str:
    """
    >>> type_text("long"), type_text({"type": "array", "elementType": "string", "containsNull": True})
    ('long', 'array<string>')
    """
    if isinstance(kind, str):
        return kind
    match kind["type"]:
        case "array":
            return f"array<{type_text(kind['elementType'])}>"
        case "map":
            return f"map<{type_text(kind['keyType'])},{type_text(kind['valueType'])}>"
        case _:
            fields = (f"{each['name']}:{type_text(each['type'])}" for each in kind["fields"])
            return f"struct<{','.join(fields)}>"
