"""Somebody makes another version current while a plan waits, or after what is undone: who says yes is told."""

from __future__ import annotations

from typing import Any

import pytest

from backfill_assets.campaign.later_decisions import SwitchedSince, switched_since
from backfill_assets.campaign.run import CampaignRun
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.campaign_journal import CampaignStep
from backfill_assets.lakehouse.records import Notice, Publication, Switch
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets_tests.campaign.played_campaign import DAY, PLAN, TABLE, PlayedCampaign
from backfill_assets_tests.death import Died

pytestmark = pytest.mark.protocol
P = PLAN.id
OTHER_VERSION = {"step": TABLE, "current": "v9", "by": "to-v9", "brings": ["v1"]}
SAID = f"v9 of {TABLE} was made current since, by to-v9: these days are by v1 and stay so, new days are by v9."


def switch(played: PlayedCampaign, version: str = "v9", former: str = "", former_by: str = "") -> str:
    """As ``timeline publish --as-current --new-days-only`` does it."""
    switches = {TABLE: Switch(version=version, former=former, former_by=former_by)}
    made = Publication(id=f"to-{version}", kind="replace", tables=(), switches=switches)
    played.lakehouse.publish_request(made)
    return made.id


def in_one_line(text: str) -> str:
    return " ".join(text.split())


def test_an_approval_names_a_version_that_was_made_current_since(
    played: PlayedCampaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It publishes the days by the version of the plan, and has to say so before it asks."""
    played.stage()
    switch(played)
    monkeypatch.setattr("backfill_assets.answers.campaign.staged_notice", lambda _: Notice(title="It was rebuilt"))
    assert SAID in in_one_line(played.backfill("approve", P, exit_code=2).output)
    assert played.ids() == [1, 2], "nobody has said yes"


def test_a_program_that_approves_is_told_too(played: PlayedCampaign, monkeypatch: pytest.MonkeyPatch) -> None:
    def publish(at: CampaignRun, **_: object) -> None:
        played.publish()
        played.enter("step", CampaignStep.CUT_OVER, publication="cut", days={})

    monkeypatch.setattr("backfill_assets.cli.verbs.approve.carry_on", publish)
    played.stage()
    switch(played)
    values = played.backfill.json("approve", P, "--yes")
    assert (values["switched_since"], values["rolled_back_since"]) == ([OTHER_VERSION], {})


@pytest.mark.parametrize("words", [("--dry-run",), ("--yes",)])
def test_the_undo_of_a_campaign_below_a_switch_names_it(played: PlayedCampaign, words: tuple[str, ...]) -> None:
    played.cut_over()
    switch(played)
    assert SAID in in_one_line(played.backfill("rollback", P, *words).output)


def test_so_does_the_undo_of_its_undo(played: PlayedCampaign) -> None:
    """A switch before the undo was named then: what comes back now is from after it."""
    played.cut_over()
    undo = played.undo()
    assert "switched_since" not in played.backfill.json("rollback", undo, "--dry-run")
    switch(played)
    done = played.backfill.json("rollback", undo, "--yes")
    assert done["switched_since"] == [OTHER_VERSION] and done["restores"]
    assert "switched_since" not in played.backfill.json("rollback", done["publication"], "--dry-run")


def test_so_does_the_rollback_of_a_single_publication(played: PlayedCampaign) -> None:
    """The days of the one before are by the version of then; those of its own count for nothing."""
    played.lakehouse.publish("nightly", {TABLE: {DAY: [3]}}, code="v8")
    switch(played)
    assert SAID in in_one_line(played.backfill("rollback", "nightly", exit_code=2).output)
    assert played.backfill.json("rollback", "nightly", "--yes")["switched_since"] == [OTHER_VERSION]


@pytest.mark.parametrize(
    ("brings", "named"),
    [({"v1"}, ("v1",)), ({"v9"}, ()), ({"v9", "v1", "v8", ""}, ("v1", "v8")), ({"adopted"}, ())],
)
def test_only_days_of_other_versions_are_named(
    played: PlayedCampaign, brings: set[str], named: tuple[str, ...]
) -> None:
    switch(played)
    assert since(played, -1, brings) == tuple(SwitchedSince(TABLE, "v9", "to-v9", named) for _ in named[:1])


def test_the_last_switch_counts_and_none_from_before(played: PlayedCampaign) -> None:
    log = played.lakehouse.publisher.log
    switch(played)
    at = log.closed_at("to-v9")
    assert [each.current for each in since(played, at - 2)] == ["v9"] and since(played, at) == ()
    switch(played, "v8", "v9", "to-v9")
    assert [(each.current, each.by) for each in since(played, at)] == [("v8", "to-v8")]
    played.backfill("rollback", "to-v8", "--yes")
    played.backfill("rollback", "to-v9", "--yes")
    assert since(played, -1) == (), "it is as it is declared again"
    (back,) = since(played, -1, {"v2"})
    assert (back.current, back.by) == ("v1", played.newest())


def test_a_switch_that_did_not_come_about_is_none(played: PlayedCampaign) -> None:
    """Another one was faster, or its process died before its end."""
    played.lakehouse.crash_at = CrashPoint.PREPARED
    with pytest.raises(Died):
        switch(played)
    played.lakehouse.crash_at = None
    assert since(played, -1) == ()


def since(played: PlayedCampaign, entry: int, brings: Any = ("v1",)) -> tuple[SwitchedSince, ...]:
    return switched_since(played.lakehouse.publisher.log, entry, {TABLE: brings}, CATALOG.steps)
