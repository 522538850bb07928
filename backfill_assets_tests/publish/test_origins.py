"""The record of a day says where its rows come from: compactions, undos and folding carry it along."""

from __future__ import annotations

import json
from datetime import date

import pyarrow.parquet as pq
import pytest

from backfill_assets.campaign.rollback import roll_back
from backfill_assets.lakehouse.records import Origin, Provenance
from backfill_assets.publish import log as publication_log
from backfill_assets.publish.head import WITHOUT_CLOSED_DAYS
from backfill_assets.publish.log import HEAD, LOG_TABLE
from backfill_assets_tests.protocol.lake import D1, D2, Lake, pinned_by

pytestmark = pytest.mark.protocol
CAMPAIGN = Provenance(campaign="campaign-rates")


def brought(lake: Lake, id: str, name: str) -> None:
    """A campaign publishes a day."""
    publisher, rows = lake.publisher(), {"t": {D1: [name]}}
    publisher.publish(lake.request(id, rows, pinned_by(publisher, rows)).model_copy(update={"provenance": CAMPAIGN}))


def merge(lake: Lake, day: date, name: str) -> None:
    """A compaction of a day that has one row."""
    lake.publisher().publish(lake.request("merged", {"t": {day: [name]}}, kind="compact"))


def test_what_is_computed_is_of_its_publication_and_keeps_the_campaign_below_it(lake: Lake) -> None:
    """A run on top of a campaign changes nothing about who decided on the day."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    assert lake.day("t", D1).origin == Origin("p1")
    brought(lake, "c1", "b")
    of_campaign = Origin("c1", campaign="campaign-rates", brought_by="c1")
    assert lake.day("t", D1).origin == of_campaign
    lake.publish("p2", {"t": {D1: ["c"]}})
    assert lake.day("t", D1).origin == Origin("p2", campaign="campaign-rates", brought_by="c1")
    roll_back(lake.publisher(), "p2", id="undo", steps=())
    undone = Origin(
        "c1", campaign="campaign-rates", brought_by="c1", put_back_by="undo", undid="p2", rolled_back_by="undo"
    )
    assert lake.day("t", D1).origin == undone


def test_an_undo_of_an_undo_ends_it_also_across_a_compaction(lake: Lake) -> None:
    """And a third one stands again."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    lake.publish("p2", {"t": {D1: ["b"]}})
    roll_back(lake.publisher(), "p2", id="undo", steps=())
    merge(lake, D1, "a")
    stands = Origin("p1", put_back_by="undo", undid="p2", rolled_back_by="undo")
    assert (lake.day("t", D1).publication, lake.day("t", D1).origin) == ("merged", stands)
    roll_back(lake.publisher(), "merged", id="apart", steps=())
    assert lake.day("t", D1).origin == Origin("p1", put_back_by="apart", undid="merged", rolled_back_by="undo")
    roll_back(lake.publisher(), "undo", id="redo", steps=())
    assert lake.day("t", D1).origin == Origin("p2", put_back_by="redo", undid="undo")
    roll_back(lake.publisher(), "redo", id="again", steps=())
    assert lake.day("t", D1).origin == Origin("p1", put_back_by="again", undid="redo", rolled_back_by="undo")


def test_a_day_of_raw_knows_since_when_it_has_only_gained_rows(lake: Lake) -> None:
    """Rows that are taken out are the end of that."""
    lake.append("a1", "t", {D1: ["a"]})
    lake.append("a2", "t", {D1: ["b"]})
    assert lake.day("t", D1).origin == Origin("a1", gained_by="a2")
    roll_back(lake.publisher(), "a2", id="undo", steps=())
    assert lake.day("t", D1).origin == Origin("undo", put_back_by="undo", undid="a2", rolled_back_by="undo")
    lake.append("a3", "t", {D1: ["c"]})
    assert lake.day("t", D1).origin == Origin("undo", gained_by="a3")


def test_nobody_has_computed_what_others_had_a_hand_in(lake: Lake) -> None:
    """It comes back by an undo, as it was."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    lake.foreign_rows("t", {D1: ["theirs"]})
    lake.publish("p2", {"t": {D1: ["b"]}})
    roll_back(lake.publisher(), "p2", id="undo", steps=())
    assert lake.day("t", D1).origin == Origin(put_back_by="undo", undid="p2", rolled_back_by="undo")


def without_origins(lake: Lake) -> None:
    """The log as it was written before origins were recorded: no column of it, in its schema and in its files."""
    folder = lake.root / LOG_TABLE
    for file in folder.rglob("*.parquet"):
        pq.write_table(pq.read_table(file).drop_columns(["origin"]), file)
    for commit in (folder / "_delta_log").glob("*.json"):
        commit.write_text("\n".join(map(_without, commit.read_text().splitlines())) + "\n")


def _without(line: str) -> str:
    action = json.loads(line)
    if meta := action.get("metaData"):
        schema = json.loads(meta["schemaString"])
        schema["fields"] = [each for each in schema["fields"] if each["name"] != "origin"]
        meta["schemaString"] = json.dumps(schema)
    if add := action.get("add"):
        kept = json.loads(add["stats"])
        for bounds in (kept["minValues"], kept["maxValues"], kept["nullCount"]):
            bounds.pop("origin", None)
        add["stats"] = json.dumps(kept)
    if head := action.get("commitInfo", {}).get(HEAD):
        action["commitInfo"][HEAD] = json.dumps({**json.loads(head), "format": 1})
    return json.dumps(action)


def test_a_log_from_before_origins_goes_on(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each day is of its last publication; a rollback stands, and a campaign is known."""
    brought(lake, "c1", "a")
    lake.publish("p1", {"t": {D2: ["x"]}})
    lake.publish("p2", {"t": {D2: ["y"]}})
    roll_back(lake.publisher(), "p2", id="undo", steps=())
    without_origins(lake)
    assert lake.day("t", D1).origin == Origin("c1", campaign="campaign-rates", brought_by="c1")
    stands = Origin("undo", put_back_by="undo", rolled_back_by="undo")
    assert lake.day("t", D2).origin == stands
    lake.publish("p3", {"t": {D1: ["b"]}})
    assert lake.head.format == WITHOUT_CLOSED_DAYS, "older processes are refused from now on"
    assert lake.day("t", D1).origin == Origin("p3", campaign="campaign-rates", brought_by="c1")
    merge(lake, D2, "x")
    assert lake.day("t", D2).origin == stands
    monkeypatch.setattr(publication_log, "_INDEX_EVERY", 8)
    for number in range(4):
        lake.publish(f"more-{number}", {"u": {D1: [f"{number}"]}})
    assert lake.head.index, "a chunk of the log is indexed"
    assert lake.day("t", D2).origin == stands, "through an index of the log"
    roll_back(lake.publisher(), "p3", id="undo-3", steps=())
    assert lake.rows("t")[D1] == ["a"]
