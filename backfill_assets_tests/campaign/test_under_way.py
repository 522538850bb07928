"""Which campaigns are under way follows from journals and log alone: there is no list of them that could be wrong."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from backfill_assets import clock
from backfill_assets.campaign.course import is_given_up, is_published, state_of
from backfill_assets.campaign.published import all_entries, published_by
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.lakehouse import campaign_journal as journal
from backfill_assets.lakehouse.campaign_journal import CampaignStep, JournalEntry, campaign_of
from backfill_assets.lakehouse.records import Provenance
from backfill_assets.publish.log import PublicationLog
from backfill_assets.state.campaigns import plans_under_way
from backfill_assets_tests.begun_campaign import going
from backfill_assets_tests.campaign.played_campaign import PLAN, TABLE, PlayedCampaign
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol
NAME, DAY = "plan-0123456789abcdef", date(2017, 3, 1)
CAMPAIGN, AT = campaign_of(NAME), datetime(2017, 6, 1, 12, 0, 0, 250_000, tzinfo=UTC)
DAMAGE = f"_campaigns/{CAMPAIGN}/{{:06d}}.json"


_ENTRIES: Mapping[str, Mapping[str, object]] = {
    "started": {"kind": "started"},
    "resumed": {"kind": "resumed"},
    "unaware": {"kind": "resumed"},
    "stopped": {"kind": "stopped"},
    "abandoned": {"kind": "stopped", "report": {"abandoned": True}},
    "closed": {"kind": "step", "step": CampaignStep.DECOMMISSION},
}


class Told:
    """A history in words: what commands write into the journal, and what they publish."""

    def __init__(self, root: Path) -> None:
        self.lakehouse = SmallLakehouse(root)
        self.lakehouse.publish("before", {"fact": {DAY: [0]}})
        self.newest, self.known, self.rows = "", self.log.head().version, 0

    @property
    def log(self) -> PublicationLog:
        return self.lakehouse.publisher.log

    def tell(self, history: str) -> None:
        for number, word in enumerate(history.split()):
            if word in ("cut", "undo", "redo"):
                self._publish(word, f"{word}-{number}")
            else:
                self._write(word)

    def _publish(self, word: str, id: str) -> None:
        if word == "cut":
            self.rows += 1
            asked = self.lakehouse.request(id, {"fact": {DAY: [self.rows]}})
            mine = asked.model_copy(update={"provenance": Provenance(campaign=CAMPAIGN)})
            self.lakehouse.publish_request(mine)
        else:
            undoes = Provenance(campaign=CAMPAIGN, undoes=self.newest)
            roll_back(self.lakehouse.publisher, self.newest, id=id, steps=(), provenance=undoes)
        self.newest = id

    def _write(self, word: str) -> None:
        """``unaware``: taken up by one who does not know what was published since the last start."""
        known = self.known if word == "unaware" else self.log.head().version
        entry = JournalEntry.model_validate({**_ENTRIES[word], "at": AT, "log": known})
        self.known = self.log.head().version if word in ("started", "resumed") else self.known
        journal.write(self.lakehouse.storage, CAMPAIGN, entry)


@pytest.mark.parametrize(
    ("history", "is_going"),
    [
        ("started", True),
        ("started stopped", True),
        ("started abandoned", False),
        ("started abandoned resumed", True),
        ("started cut", False),
        ("started cut resumed", False),
        ("started cut undo", False),
        ("started cut undo resumed", True),
        ("started cut undo unaware", False),
        ("started cut undo resumed cut", False),
        ("started cut undo resumed redo", False),
        ("started cut undo redo", False),
        ("started cut undo redo undo resumed", True),
        ("started cut closed", False),
        ("started cut closed undo", False),
        ("started cut closed undo resumed", True),
        ("started cut undo resumed abandoned redo", False),
    ],
)
def test_it_is_under_way_from_its_start_until_it_is_published_or_given_up(
    tmp_path: Path, history: str, is_going: bool
) -> None:
    """As the whole course of it says; and by the moment of that start."""
    told = Told(tmp_path)
    with clock.use(told.lakehouse.time):
        told.tell(history)
        entries = all_entries(journal.entries(told.lakehouse.storage, CAMPAIGN), published_by(told.log, CAMPAIGN))
        now = state_of(CAMPAIGN, entries)
        over = is_published(now) or bool(now.rolled_back) or is_given_up(now) or now.finished
        assert plans_under_way(told.log) == ({NAME: AT.replace(microsecond=0)} if is_going else {})
        assert is_going is (now.started and not over)


@pytest.mark.parametrize(
    ("history", "number", "is_going"),
    [
        ("started", 0, True),
        ("started stopped", 1, True),
        ("started stopped abandoned", 0, False),
        ("started abandoned resumed", 2, True),
        ("started abandoned stopped", 1, True),
        ("started cut stopped", 0, False),
    ],
)
def test_what_cannot_be_read_may_have_been_a_start(tmp_path: Path, history: str, number: int, is_going: bool) -> None:
    """Its files are kept until a person has decided; what is published is known from the log."""
    told = Told(tmp_path)
    with clock.use(told.lakehouse.time):
        told.tell(history)
        told.lakehouse.storage.replace_bytes(DAMAGE.format(number), b'{"kind": "sta')
        assert list(plans_under_way(told.log)) == [NAME] * is_going


def test_a_journal_of_before_has_the_undo_itself(tmp_path: Path) -> None:
    """Its entries do not say what was known of the log."""
    told = Told(tmp_path)
    with clock.use(told.lakehouse.time):
        told.tell("started cut undo")
        for kind, reason in (("rolled back", f"by {told.newest}"), ("resumed", "")):
            entry = JournalEntry.model_validate({"kind": kind, "reason": reason, "at": AT})
            journal.write(told.lakehouse.storage, CAMPAIGN, entry)
        assert list(plans_under_way(told.log)) == [NAME]


@pytest.mark.parametrize("state", ["staged", "published", "undone"])
def test_a_list_of_open_plans_that_an_older_version_kept_is_believed_by_nobody(
    played: PlayedCampaign, state: str
) -> None:
    """Right, missing or nonsense: every command says the same."""
    played.stage() if state == "staged" else played.cut_over()
    if state == "undone":
        played.undo()
    storage = played.lakehouse.storage
    told = _all_commands(played)
    assert going(storage) == [PLAN.id] * (state == "staged")
    for name in (PLAN.id, "plan-00000000000000aa", "plan-", ".DS_Store"):
        storage.write_bytes(f"_plans/_open/{name}", b"\x00nonsense")
    assert _all_commands(played) == told
    shutil.rmtree(storage.uri("_plans/_open"))
    assert _all_commands(played) == told


def _all_commands(played: PlayedCampaign) -> list[object]:
    asked = (
        ("status",),
        ("status", TABLE),
        ("status", PLAN.id),
        ("timeline", "list"),
        ("maintain", "--dry-run"),
    )
    return [played.backfill.json(*words) for words in asked]
