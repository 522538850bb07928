"""An event says what the log says: checked with the client's own models, and as the JSON that a receiver gets."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from openlineage.client.event_v2 import RunEvent
from openlineage.client.serde import Serde

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.records import Position, Prepared, Publication
from backfill_assets.publish.lineage_event import (
    NAMESPACE,
    ClosedPublication,
    LineagePlaces,
    address,
    run_event,
    run_id,
    type_text,
)
from backfill_assets_tests.small_lakehouse import SmallLakehouse

FACT, BRONZE, RAW = "fact_sales_transactions", "bronze_sales", "raw_sales"
D1, D2 = date(2017, 3, 1), date(2017, 3, 2)
AT = datetime(2017, 6, 1, 12, tzinfo=UTC)
PLACES = LineagePlaces("/data/lakehouse", "/data/landing", "kafka://broker:9092/sales")


@pytest.fixture
def lakehouse(tmp_path: Path) -> SmallLakehouse:
    return SmallLakehouse(tmp_path / "lakehouse")


def _closed(lakehouse: SmallLakehouse, publication: str, **changes: object) -> ClosedPublication:
    log = lakehouse.publisher.log
    [prepared] = log.prepared_of([publication])
    changed = prepared.model_copy(update={"publication": prepared.publication.model_copy(update=changes)})
    return ClosedPublication(changed, AT, log.versions_of(publication))


def _fact(lakehouse: SmallLakehouse, code: str = "", **changes: object) -> ClosedPublication:
    """Bronze is published, and then facts that read it."""
    lakehouse.publish("bronze", {BRONZE: {D1: [1, 2], D2: [3]}})
    request = lakehouse.request("facts", {FACT: {D1: [1, 2], D2: [3]}}, code=code or CATALOG.step(FACT).current)
    read = tuple(lakehouse.publisher.pin({}, {BRONZE: [D1, D2]}).inputs.values())
    lakehouse.publish_request(request.model_copy(update={"inputs": read}))
    return _closed(lakehouse, "facts", **changes)


def _event(closed: ClosedPublication, places: LineagePlaces = PLACES) -> dict[str, Any]:
    """As it is sent; each model checks itself when it is made."""
    event = run_event(closed, places, CATALOG)
    assert isinstance(event, RunEvent)
    found: dict[str, Any] = json.loads(Serde.to_json(event))
    return found


def test_a_publication_is_a_run_of_its_tables_job_with_versions_columns_and_rows(lakehouse: SmallLakehouse) -> None:
    event = _event(_fact(lakehouse))
    assert (event["eventType"], event["eventTime"]) == ("COMPLETE", "2017-06-01T12:00:00+00:00")
    assert (event["job"]["namespace"], event["job"]["name"]) == (NAMESPACE, f"sales.{FACT}")
    [read] = event["inputs"]
    assert (read["namespace"], read["name"]) == ("file", f"/data/lakehouse/{BRONZE}")
    assert read["facets"]["version"]["datasetVersion"] == "1"
    [brought] = event["outputs"]
    facets = brought["facets"]
    assert brought["name"] == f"/data/lakehouse/{FACT}" and facets["version"]["datasetVersion"] == "1"
    statistics = brought["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["fileCount"]) == (3, 2) and statistics["size"] > 0
    assert [(each["name"], each["type"]) for each in facets["schema"]["fields"]] == [("id", "long"), ("day", "date")]
    amount = facets["columnLineage"]["fields"]["amount_eur"]["inputFields"]
    assert [(each["name"].rpartition("/")[2], each["field"]) for each in amount] == [
        (BRONZE, "sales_value"),
        ("bronze_fx_rates", "rate"),
    ]
    assert facets["ownership"]["owners"] == [{"name": "team:retail-data"}]
    assert facets["symlinks"]["identifiers"][0]["name"] == FACT
    assert facets["lifecycleStateChange"]["lifecycleStateChange"] == "OVERWRITE"
    said = event["run"]["facets"]
    assert said["nominalTime"]["nominalStartTime"] == "2017-03-01T00:00:00+00:00"
    assert said["nominalTime"]["nominalEndTime"] == "2017-03-03T00:00:00+00:00"
    assert said["backfill_publication"]["days"] == {FACT: "2017-03-01..2017-03-02"}
    assert said["backfill_publication"]["launchedBy"] == "ana" and "parent" not in said


def test_each_part_names_its_producer_and_its_schema(lakehouse: SmallLakehouse) -> None:
    """Each facet needs both, and receivers refuse one without them."""
    event = _event(_fact(lakehouse))
    facets = [event["job"]["facets"], event["run"]["facets"]]
    facets += [each[name] for each in event["outputs"] for name in ("facets", "outputFacets")]
    for facet in (one for each in facets for one in each.values()):
        assert facet["_producer"] == event["producer"] == "urn:backfill-assets:0.1.0"
        assert facet["_schemaURL"].startswith("https://openlineage.io/spec/")


def test_a_run_has_the_same_id_however_often_it_is_told_and_another_lakehouse_has_others(
    lakehouse: SmallLakehouse,
) -> None:
    closed = _fact(lakehouse)
    elsewhere = replace(closed, at=AT.astimezone(timezone(timedelta(hours=2))))
    ids = {run_id(PLACES, each) for each in (closed, elsewhere)}
    assert ids == {str(UUID(run_id(PLACES, closed)))}
    assert run_id(replace(PLACES, lakehouse="s3://lake"), closed) not in ids
    assert run_id(PLACES, _closed(lakehouse, "bronze")) not in ids


def test_columns_of_another_version_are_not_guessed(lakehouse: SmallLakehouse) -> None:
    assert "columnLineage" not in _event(_fact(lakehouse, code="v0"))["outputs"][0]["facets"]


@pytest.mark.parametrize(
    ("changes", "job"),
    [
        ({"kind": "compact"}, "sales.compact"),
        ({"kind": "rollback"}, "sales.rollback"),
        ({}, f"sales.{FACT}"),
    ],
)
def test_jobs_are_few_and_named_after_datasets(lakehouse: SmallLakehouse, changes: dict[str, Any], job: str) -> None:
    assert _event(_fact(lakehouse, **changes))["job"]["name"] == job


def test_a_campaign_is_a_run_of_its_datasets_job(lakehouse: SmallLakehouse) -> None:
    lakehouse.publish("both", {BRONZE: {D1: [1]}, FACT: {D1: [1]}})
    [prepared] = lakehouse.publisher.log.prepared_of(["both"])
    made = prepared.publication.provenance.model_copy(update={"campaign": "c1", "run": str(UUID(int=7))})
    both = _closed(lakehouse, "both", provenance=made)
    event = _event(both)
    assert event["job"]["name"] == "sales.campaign"
    assert [each["name"].rpartition("/")[2] for each in event["outputs"]] == [BRONZE, FACT]
    assert event["run"]["facets"]["parent"]["run"]["runId"] == str(UUID(int=7)), "the run in Dagster"
    assert _event(_closed(lakehouse, "both"))["job"]["name"] == "sales.publish"


def test_raw_reads_the_landing_zone_or_the_topic(lakehouse: SmallLakehouse) -> None:
    lakehouse.publish("came", {RAW: {D1: [1]}}, mode="append")
    assert [(e["namespace"], e["name"]) for e in _event(_closed(lakehouse, "came"))["inputs"]] == [
        ("file", "/data/landing/sales")
    ]
    [prepared] = lakehouse.publisher.log.prepared_of(["came"])
    [change] = prepared.publication.tables
    offsets = (Position(id="kafka:sales:sales@2:0", before=0, after=5),)
    streamed = _closed(lakehouse, "came", tables=(change.model_copy(update={"positions": offsets}),))
    assert [(e["namespace"], e["name"]) for e in _event(streamed)["inputs"]] == [("kafka://broker:9092", "sales")]
    assert _event(streamed, replace(PLACES, topic=""))["inputs"] == []


def test_a_table_that_is_not_declared_any_more_and_a_switch_alone_have_events(lakehouse: SmallLakehouse) -> None:
    lakehouse.publish("old", {"report_gone": {D1: [1]}})
    event = _event(_closed(lakehouse, "old"))
    assert event["job"]["name"] == "report_gone.report_gone" and "ownership" not in event["outputs"][0]["facets"]
    alone = Publication(id="s1", kind="replace", tables=(), switches={FACT: {"version": "v1"}})  # type: ignore[dict-item]
    switched = ClosedPublication(Prepared(publication=alone, before={}, window_days=30), AT, {})
    assert (_event(switched)["outputs"], _event(switched)["job"]["name"]) == ([], f"sales.{FACT}")


def test_types_and_addresses_are_written_as_delta_and_openlineage_write_them() -> None:
    struct = {"type": "struct", "fields": [{"name": "a", "type": "long"}]}
    of_map = {"type": "map", "keyType": "string", "valueType": struct}
    assert type_text(of_map) == "map<string,struct<a:long>>"
    assert type_text({"type": "array", "elementType": "decimal(18,2)"}) == "array<decimal(18,2)>"
    assert address("s3://lake/prod/") == ("s3://lake", "prod") and address("/a/b") == ("file", "/a/b")
