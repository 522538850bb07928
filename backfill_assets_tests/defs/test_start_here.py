"""The asset ``start_here``: what a person reads first, kept as the lakehouse is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from types import MappingProxyType

import dagster as dg
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import (
    RegisteredCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus, ScheduleInstigatorData

from backfill_assets.answers.to_do import SHOWN_AT_ONCE, ToDo, Urgency
from backfill_assets.campaign.standing import PlanStanding, page_of
from backfill_assets.days import TableDay
from backfill_assets.defs.campaigns.jobs import SENSOR as CAMPAIGNS
from backfill_assets.defs.start_here import (
    ASSET,
    PEOPLE,
    QUARANTINE,
    STATE,
    built_datasets,
    start_here_page,
    start_here_spec,
    state_sentence,
)
from backfill_assets.errors import NotDelivered
from backfill_assets.lakehouse import campaign_journal as journal
from backfill_assets.lakehouse.campaign_journal import CampaignStep, JournalEntry, campaign_of
from backfill_assets.lakehouse.campaign_reports import StopReport
from backfill_assets.lakehouse.plans import keep_plan
from backfill_assets.lakehouse.records import DayContent, DayState
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.logic import logic_of
from backfill_assets.plan.records import Plan, PlanRequest
from backfill_assets.publish.places import forget_failures, note_failure
from backfill_assets.text import escape_markdown
from backfill_assets.ui_addresses import asset_page
from backfill_assets_tests.defs.campaigns.campaigns import started
from backfill_assets_tests.defs.conftest import shown_on
from backfill_assets_tests.defs.fake_builder import FakeBuilder, fake_resources
from backfill_assets_tests.defs.sensors.test_landed_files import World
from backfill_assets_tests.defs.small_chain import publish_chain, publish_step
from backfill_assets_tests.defs.small_dataset import SMALL, SMALL_CATALOG, SMALL_TABLES
from backfill_assets_tests.small_lakehouse import LakehouseOfReasons, SmallLakehouse

MADE = datetime(2017, 6, 1, tzinfo=UTC)
PLAN = Plan(asked=PlanRequest(target="fact_daily_revenue", days="2017-03-01..2017-03-02"), steps=(), made_at=MADE)
DAYS = [date(2017, 3, 1), date(2017, 3, 2)]


class Page:
    """What the page shows after each tick of the sensor that keeps it."""

    def __init__(self, home: Path, instance: dg.DagsterInstance) -> None:
        self.lakehouse = SmallLakehouse(home / "lakehouse")
        self.instance, self.home = instance, home
        self.builder = FakeBuilder()
        self.cursor: object = None

    def tick(self) -> None:
        page = start_here_page(SMALL_TABLES)
        resources = fake_resources(self.builder, self.home)
        with dg.build_sensor_context(instance=self.instance, resources=resources) as context:
            _, self.cursor = page(context, context.resources.backfill, self.cursor)

    def publish(self) -> None:
        publish_chain(self.lakehouse, "p", DAYS)
        self.builder.log = self.lakehouse.publisher.log

    def shown(self) -> list[dict[str, object]]:
        """The texts of the page, newest first."""
        return shown_on(self.instance, ASSET)


@pytest.fixture
def page(tmp_path: Path, dagster_instance: dg.DagsterInstance) -> Page:
    return Page(tmp_path, dagster_instance)


def test_it_links_to_the_three_things_that_people_do() -> None:
    """The first lesson is one range of the fact and all that is made of it."""
    spec = start_here_spec(SMALL_CATALOG)
    text = str([each.value for each in spec.metadata.values()])
    assert "(/asset-groups~key%3A%22fact_sales_transactions%22%2B/)" in text
    assert 'key:"fact_sales_transactions"+' in text
    assert "(/automation)" in text and "(/runs?view=backfills)" in text
    assert "--select fact_sales_transactions --partition-range A...B" in text
    assert spec.group_name == "begin"
    assert max(len(str(each.value)) for each in spec.metadata.values()) <= SHOWN_AT_ONCE


def test_an_empty_lakehouse_says_how_to_begin(page: Page) -> None:
    """Before anything was built, and without creating a log."""
    page.tick()
    assert "Land data" in str(page.shown()[0][STATE])
    assert not page.lakehouse.storage.exists("_publications")


def test_the_page_follows_the_lakehouse(page: Page) -> None:
    """One event for a change, none without."""
    page.publish()
    page.tick()
    (shown,) = page.shown()
    assert "small: 2 days in 7 tables, 2017-03-01..2017-03-02" in str(shown[STATE])
    assert shown[PEOPLE] == "Nothing."
    page.tick()
    assert len(page.shown()) == 1


def test_a_version_that_was_edited_in_place_needs_a_person(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its table, its days, and both ways out; until it is put back."""
    step = SMALL_CATALOG.step("fact_daily_revenue")
    page.lakehouse.logic[step.name] = logic_of(step.version()).fingerprint
    page.publish()
    page.tick()
    edited = replace(step, versions=(replace(step.version(), transform=MappingProxyType),))
    steps = tuple(edited if each is step else each for each in SMALL_CATALOG.steps)
    with monkeypatch.context() as patch:
        patch.setitem(vars(SMALL_CATALOG), "steps", steps)
        page.tick()
    page.tick()
    after, during, before = (str(each[PEOPLE]) for each in page.shown())
    assert "made with another logic than v2 has now" in during and "same-rows" in during
    assert "fact_daily_revenue" in during and "2017-03-01..2017-03-02" in during
    assert "another logic" not in before + after


def test_a_campaign_that_waits_is_linked_only_if_its_page_has_something(page: Page) -> None:
    """One that a command has carried so far has no page: the commands that show it and publish it are there."""
    page.publish()
    storage, name = page.lakehouse.storage, campaign_of(PLAN.id)
    keep_plan(storage, PLAN.id, PLAN.to_json())
    journal.write(storage, name, JournalEntry(kind="started", at=MADE))
    for step in (CampaignStep.SHADOW, CampaignStep.VALIDATE):
        journal.write(storage, name, JournalEntry(kind="step", step=step, at=MADE))
    page.tick()
    assert page.shown()[0][PEOPLE] == f"**{PLAN.id} waits for approval**.\n\nTo do: `backfill diff {PLAN.id}`"
    shown = page_of(PLAN, PlanStanding.WAITING)
    page.instance.add_dynamic_partitions(CAMPAIGNS, [shown])
    page.tick()
    link = asset_page("campaign", shown)
    assert page.shown()[0][PEOPLE] == (
        f"[**{PLAN.id} waits for approval**]({link}).\n\nTo do: [read its difference, and approve it there]({link})"
    )
    assert "1 thing below waits for a person's decision." in str(page.shown()[0][STATE])
    journal.write(storage, name, JournalEntry(kind="stopped", at=MADE, reason="a limit"))
    page.tick()
    assert str(page.shown()[0][PEOPLE]).startswith(f"[**{PLAN.id} was stopped**]({link}): a limit.")


def test_what_waits_for_a_person_is_there(page: Page) -> None:
    """Raw cannot be built again: a foreign write in it is for people, with what to do."""
    page.publish()
    page.lakehouse.write_past_the_protocol("raw_sales", DAYS[0], [7])
    page.tick()
    shown = page.shown()[0]
    assert f"{escape_markdown('raw_sales')} 2017-03-01" in str(shown[PEOPLE])
    assert shown["waiting for people"] == 1
    assert "1 thing below needs a person." in str(shown[STATE])


def test_a_place_that_takes_no_notices_is_there(page: Page) -> None:
    """With since when, why, and the command that tries it now; it goes when the place takes one."""
    page.publish()
    storage = page.lakehouse.storage
    note_failure(storage, "log", NotDelivered("the handler is gone"), MADE)
    page.tick()
    shown = str(page.shown()[0][PEOPLE])
    assert shown == (
        "**log takes no notices since 2017-06-01 00:00 UTC**: the handler is gone. It is tried again by itself.\n\n"
        "To do: try it now: `backfill maintain --send-notices`"
    )
    forget_failures(storage, "log")
    page.tick()
    assert page.shown()[0][PEOPLE] == "Nothing."


def test_a_journal_that_cannot_be_read_hides_nothing_else(page: Page) -> None:
    """Of a later version, or half of a file: the sensor `campaigns` says it in each tick. Nor does a lost plan."""
    page.publish()
    at = started(page.home, CampaignStep.VALIDATE)
    other = campaign_of("plan-0123456789abcdef")
    page.lakehouse.storage.write_bytes(f"_campaigns/{other}/000000.json", b'{"kind": "of a later version"}')
    page.tick()
    shown = page.shown()[0]
    both = {str(shown[f"{PEOPLE}, 1"]).split("**")[1], str(shown[f"{PEOPLE}, 2"]).split("**")[1]}
    assert both == {f"{at.plan.id} waits for approval", f"{other} cannot be read"}


def test_what_is_over_costs_one_file_a_campaign(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is written each minute, and after years nearly all campaigns are over: their journals stay closed."""
    page.publish()
    storage = page.lakehouse.storage
    over = [campaign_of(f"plan-{number:016x}") for number in range(4)]
    for number, name in enumerate(over):
        journal.write(storage, name, JournalEntry(kind="started", at=MADE))
        for step in CampaignStep if number else (CampaignStep.ANNOUNCE,):
            journal.write(storage, name, JournalEntry(kind="step", step=step, at=MADE))
    given_up = JournalEntry(kind="stopped", at=MADE, reason="ana abandoned it", report=StopReport(abandoned=True))
    journal.write(storage, over[0], given_up)
    at, read, original = started(page.home, CampaignStep.VALIDATE), list[str](), Storage.read_bytes

    def noting(storage: Storage, path: str) -> bytes:
        read.append(path)
        return original(storage, path)

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "read_bytes", noting)
        page.tick()
    assert f"**{at.plan.id} waits for approval**" in str(page.shown()[0][PEOPLE])
    assert [path.split("/")[1] for path in read if path.startswith("_campaigns/") and at.campaign not in path] == over


def test_what_is_in_quarantine_is_there_although_every_gate_passed(page: Page) -> None:
    """With rows, share and the commonest reason: revenue is short of what was sold on these lines."""
    page.lakehouse = LakehouseOfReasons(page.home / "lakehouse")
    page.publish()
    publish_step(page.lakehouse, "whole", SMALL.step_of("bronze_sales"), dict.fromkeys(DAYS, 0))
    page.tick()
    assert page.shown()[0][QUARANTINE] == "Nothing."
    page.lakehouse.metrics = {"quarantine_sales": {"from.raw_sales.received": 3_286}}
    publish_step(page.lakehouse, "again", SMALL.step_of("bronze_sales"), {DAYS[0]: 30, DAYS[1]: 0})
    page.tick()
    shown = page.shown()[0]
    lacks = "bronze_sales lacks 30 of 3,286 received rows (0.91 %) on 2017-03-01, most often quantity: is not a bigint"
    assert shown[QUARANTINE] == (
        f"[{escape_markdown(lacks + '. The rows:')}](/assets/quarantine_sales?view=partitions&partition=2017-03-01) "
        "`backfill raw quarantine quarantine_sales`"
    )


def test_a_new_day_is_for_a_person_once_the_daily_job_was_turned_off(tmp_path: Path) -> None:
    """It has landed, and its datasets were built before: the schedule, which is on from the start, would build it."""
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        page = Page(tmp_path, instance)
        page.publish()
        world = World(page.home, page.instance)
        for day in (DAYS[1], date(2017, 3, 3)):
            world.land(day)
        world.take_in(DAYS[1], "a")
        page.tick()
        assert page.shown()[0][PEOPLE] == "Nothing."
        _turn_off(page.instance, "every_day_small")
        page.tick()
        shown = str(page.shown()[0][PEOPLE])
        switch = "/locations/backfill_assets/schedules/every_day_small"
        assert shown == (
            f"[**raw_sales 2017-03-03: landed, and nothing builds it**]({switch}): The daily job is off.\n\n"
            f"To do: [turn on every_day_small, which builds each day that has ended]({switch})"
        )


def _turn_off(instance: dg.DagsterInstance, schedule: str) -> None:
    """What the switch in the UI does."""
    repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("small"), "__repository__")
    data = ScheduleInstigatorData("0 2 * * *", MADE.timestamp())
    origin = RemoteInstigatorOrigin(repository, schedule)
    instance.add_instigator_state(InstigatorState(origin, InstigatorType.SCHEDULE, InstigatorStatus.STOPPED, data))


BUILT = "sales: 2 days in 12 tables, 2017-03-01..2017-03-02"


def test_the_state_in_a_sentence() -> None:
    """What needs a person, whether it is sound, what there is, and what changed last."""
    sound = "Every published day is made of what is published now: nothing to repair."
    wrong, choice = ToDo("one", Urgency.WRONG), ToDo("two", Urgency.CHOICE)
    assert state_sentence([BUILT], off=" It is off.") == f"{sound} Published: {BUILT}. It is off."
    assert state_sentence([BUILT], is_at_work=True).startswith("The sensor repairs is at work.")
    waits = "The sensor repairs waits: its newest tick says for what."
    assert state_sentence([BUILT], is_waiting=True).startswith(waits)
    assert "waits" not in state_sentence([BUILT], is_at_work=True, is_waiting=True)
    assert "in quarantine" in state_sentence([BUILT], is_any_rejected=True)
    assert state_sentence([BUILT], is_at_work=True, people=[wrong, choice]).startswith(
        "2 things below need a person, the most urgent first."
    )
    assert state_sentence([BUILT], people=[wrong]).startswith("1 thing below needs a person.")
    assert state_sentence([BUILT], people=[choice]).startswith(f"{sound} 1 thing below waits for a person's decision.")


def test_five_items_are_shown_without_a_button(page: Page) -> None:
    """Each with its title, link and step, the gravest first, whatever is said of it; of days of an older version with
    the plan that compares them. Dagster shows Markdown of up to 999 characters where it is.
    """
    publish_chain(page.lakehouse, "p", DAYS, versions={"fact_sales_transactions": "v1"})
    page.builder.log = page.lakehouse.publisher.log
    for day in DAYS:
        page.lakehouse.write_past_the_protocol("raw_sales", day, [7])
    note_failure(page.lakehouse.storage, "log", NotDelivered("gone " * 400), MADE)
    for number in range(2):
        name = campaign_of(f"plan-{number:016x}")
        journal.write(page.lakehouse.storage, name, JournalEntry(kind="started", at=MADE))
        journal.write(page.lakehouse.storage, name, JournalEntry(kind="stopped", at=MADE, reason="limit " * 400))
    page.tick()
    shown = page.shown()[0]
    items = [str(text) for label, text in shown.items() if label.startswith(PEOPLE)]
    assert max(map(len, items)) <= SHOWN_AT_ONCE and all("To do: " in each for each in items)
    titles = [each.split("**")[1] for each in items]
    assert titles[:2] == [
        "log takes no notices since 2017-06-01 00:00 UTC",
        "raw_sales 2017-03-01..2017-03-02: foreign write to raw",
    ]
    assert titles[-1] == "fact_sales_transactions 2017-03-01..2017-03-02" and len(titles) == 5
    pad = "/locations/backfill_assets/jobs/campaign/playground/setup?config="
    assert f"[compare v2 with it]({pad}" in items[-1] and "target%3A%20fact_sales_transactions" in items[-1]
    assert items[-1].endswith("`backfill plan fact_sales_transactions --days 2017-03-01..2017-03-02`")
    assert "backfill run" not in items[-1]


def test_the_days_are_those_of_the_last_daily_table() -> None:
    """Inputs have earlier days that only they need; a day that was withdrawn is none."""
    content = DayContent(rows=1, checksum="1")
    published = (
        ("raw_fx_rates", date(2017, 2, 27), content),
        ("fact_daily_revenue", DAYS[0], content),
        ("fact_daily_revenue", DAYS[1], None),
    )
    states = {TableDay(table, day): DayState(table, day, "p1", 3, "f", of) for table, day, of in published}
    assert built_datasets([SMALL], states) == ["small: 1 day in 2 tables, 2017-03-01"]
    assert built_datasets([SMALL], {}) == []
