"""Which version of a step is current is a published fact: all or nothing, undone, never lost from the log."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from backfill_assets.campaign.rollback import roll_back
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse.records import CurrentVersion, Publication, Switch
from backfill_assets.publish import fold as folding
from backfill_assets.publish import head
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.files import LogFiles
from backfill_assets.publish.head import rebuilt_head
from backfill_assets.publish.publisher import Conflict, Published
from backfill_assets_tests.protocol.lake import D1, D2, Lake

pytestmark = pytest.mark.protocol


def _switch(id: str, version: str, former: str = "", former_by: str = "") -> Publication:
    """A switch for new days alone."""
    switch = Switch(version=version, former=former, former_by=former_by)
    return Publication(id=id, kind="replace", tables=(), switches={"t": switch})


def _with_days(lake: Lake, id: str, version: str, row: str) -> Publication:
    """A switch together with days of two tables."""
    request = lake.request(id, {"t": {D1: [row]}, "u": {D1: [row]}})
    now = _current(lake).get("t")
    switch = Switch(version=version, former=now.version if now else "", former_by=now.publication if now else "")
    return request.model_copy(update={"switches": {"t": switch}})


def _current(lake: Lake) -> Mapping[str, CurrentVersion]:
    return lake.head.current


def test_a_switch_is_current_once_it_is_done_and_stays_through_later_entries(lake: Lake) -> None:
    lake.publish("p1", {"t": {D1: ["a"]}})
    assert _current(lake) == {}
    assert isinstance(lake.publisher().publish(_switch("s1", "v2")), Published)
    assert _current(lake) == {"t": CurrentVersion(version="v2", publication="s1")}
    lake.publish("p2", {"t": {D2: ["b"]}})
    assert lake.head.switches == {"t": "v2"}


@pytest.mark.parametrize("step", [CrashPoint.PREPARED, CrashPoint.TABLE_COMMITTED])
def test_a_killed_switch_is_finished_by_the_next_process_days_and_version_together(
    lake: Lake, step: CrashPoint
) -> None:
    lake.publish("p1", {"t": {D1: ["v1"]}, "u": {D1: ["v1"]}})
    lake.die(step, _with_days(lake, "s1", "v2", "v2"))
    assert _current(lake) == {}, "it is not closed"
    assert lake.publisher().recover() == {"s1": "done"}
    assert (lake.rows("t"), lake.rows("u")) == ({D1: ["v2"]}, {D1: ["v2"]})
    assert lake.head.switches == {"t": "v2"}


def test_an_aborted_switch_changes_no_version(lake: Lake) -> None:
    lake.publish("p1", {"t": {D1: ["v1"]}, "u": {D1: ["v1"]}})
    lake.die(CrashPoint.TABLE_COMMITTED, _with_days(lake, "s1", "v2", "v2"))
    lake.foreign_rows("u", {D1: ["foreign"]})
    assert lake.publisher().recover() == {"s1": "aborted"}
    assert _current(lake) == {}
    assert lake.rows("t") == {D1: ["v1"]}


def test_a_rollback_puts_days_and_version_back_and_is_undone_itself(lake: Lake) -> None:
    lake.publish("p1", {"t": {D1: ["v1"]}, "u": {D1: ["v1"]}})
    lake.publisher().publish(_with_days(lake, "s1", "v2", "v2"))
    lake.publisher().publish(_with_days(lake, "s2", "v3", "v3"))
    roll_back(lake.publisher(), "s2", id="undo", steps=())
    assert _current(lake) == {"t": CurrentVersion(version="v2", publication="undo")}
    assert lake.rows("t") == {D1: ["v2"]}
    roll_back(lake.publisher(), "s1", id="undo-more", steps=())
    assert _current(lake) == {}, "the declared version counts again"
    assert lake.rows("u") == {D1: ["v1"]}
    roll_back(lake.publisher(), "undo-more", id="redo", steps=())
    assert _current(lake) == {"t": CurrentVersion(version="v2", publication="redo")}
    assert lake.rows("u") == {D1: ["v2"]}


def test_a_rollback_of_a_switch_for_new_days_puts_the_version_back(lake: Lake) -> None:
    lake.publisher().publish(_switch("s1", "v2"))
    roll_back(lake.publisher(), "s1", id="undo", steps=())
    assert _current(lake) == {}


def test_a_switch_is_refused_if_another_one_came_first_and_so_is_its_undo(lake: Lake) -> None:
    lake.publisher().publish(_switch("s1", "v2"))
    moved = lake.publisher().publish(_switch("s2", "v3"))
    assert isinstance(moved, Conflict)
    assert moved.reasons == ("t was switched to v2 since",)
    lake.publisher().publish(_switch("s3", "v3", "v2", "s1"))
    with pytest.raises(PublicationRefused, match="switched to v3 since"):
        roll_back(lake.publisher(), "s1", id="undo", steps=())
    assert lake.head.switches == {"t": "v3"}


def test_a_version_that_was_away_and_came_back_is_another_one(lake: Lake) -> None:
    """It was decided on what the switch in between has taken away."""
    lake.publisher().publish(_switch("s1", "v2"))
    lake.publisher().publish(_switch("s2", "v1", "v2", "s1"))
    lake.publisher().publish(_switch("s3", "v2", "v1", "s2"))
    assert isinstance(lake.publisher().publish(_switch("s4", "v1", "v2", "s1")), Conflict)


def test_a_switch_to_the_version_that_is_current_is_refused(lake: Lake) -> None:
    with pytest.raises(PublicationRefused, match="v2 is current already"):
        lake.publisher().publish(_switch("s1", "v2", "v2", "s0"))


def test_an_open_switch_is_finished_by_the_next_switch_of_its_step(lake: Lake) -> None:
    lake.die(CrashPoint.PREPARED, _switch("s1", "v2"))
    assert isinstance(lake.publisher().publish(_switch("s2", "v3")), Conflict)
    assert lake.head.switches == {"t": "v2"}


def test_the_same_switch_twice_has_the_outcome_that_the_log_has(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "_REMEMBERED_OUTCOMES", 1)
    lake.publisher().publish(_switch("s1", "v2"))
    for number in range(3):
        lake.publish(f"p{number}", {"t": {D1: [str(number)]}})
    assert isinstance(lake.publisher().publish(_switch("s1", "v2")), Published)


def test_folding_and_rebuilding_the_log_keep_the_current_versions(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "FOLD_FROM_FILES", 4)
    lake.publish("p1", {"t": {D1: ["v1"]}, "u": {D1: ["v1"]}})
    lake.publisher().publish(_with_days(lake, "s1", "v2", "v2"))
    lake.die(CrashPoint.TABLE_COMMITTED, _with_days(lake, "s2", "v3", "v3"))
    lake.foreign_rows("u", {D1: ["foreign"]})
    lake.publisher().recover()
    expected = {"t": CurrentVersion(version="v2", publication="s1")}
    log = lake.publisher().log
    assert folding.fold(log, lake.clock + folding.SETTLED + folding.READABLE)
    assert _current(lake) == expected
    rebuilt = rebuilt_head(LogFiles.of(lake.storage, log.head().handle))
    assert rebuilt.current == expected
