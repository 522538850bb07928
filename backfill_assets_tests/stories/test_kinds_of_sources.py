"""What each kind of source meets, cell by cell: where one does not apply, the tool says so, and what to do instead."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model import catalog
from backfill_assets.model.catalog import Catalog
from backfill_assets.publish.log import PublicationLog
from backfill_assets.rebuild.outcome import DaysFailed
from backfill_assets.state.diagnosis import in_a_word
from backfill_assets.state.observed import observe
from backfill_assets.state.status import day_statuses
from backfill_assets.upkeep.repair import repairs_needed
from backfill_assets.upkeep.trouble import RepairContext
from backfill_assets.upkeep.watch import Watch
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.declared import declared
from backfill_assets_tests.stories.conftest import TypeOn
from backfill_assets_tests.stories.source_kinds import DAYS, FACT, FIRST, KINDS, Bill, DeltaOfOthers, Kind, Landed
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ONE, TWO, THREE, FOUR = DAYS
RIGHT = {day: Decimal(f"{2 * number + 4 + 1}.00") for number, day in enumerate(DAYS, start=1)}
"""Two bills a day: 1.50 and 5.50 on the first."""
WRONG = {day: 2 * amount for day, amount in RIGHT.items()}


class Billing:
    """The lakehouse of one kind, built by the version that counts twice."""

    def __init__(self, kind: Kind, workshop: Workshop, backfill: Backfill) -> None:
        self.kind, self.workshop, self.backfill = kind, workshop, backfill
        self.storage = Storage(str(workshop.settings.lakehouse))

    def send(self, *bills: Bill, arrives: date = FOUR) -> None:
        self.kind.send(self.workshop.settings.home, arrives, bills)

    def amounts(self) -> Mapping[date, Decimal]:
        rows = self.workshop.read(FACT)
        return dict(zip(rows["day"], rows["amount"], strict=True))

    def build(self, version: str | None = "v1") -> None:
        self.kind.build(self.workshop, version)

    def statuses(self) -> Mapping[date, str]:
        """Of the fact's days, each by the version that it was published with."""
        observed = observe(self.storage, declared().table_names)
        found = day_statuses(declared().steps, observed, as_published=True)[FACT]
        return {day: in_a_word(cause) for day, cause in found.items()}

    def refused(self, *words: object) -> str:
        return self.backfill(*words, exit_code=1).stderr


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Kind], Path]:
    """The home of a kind, built once."""

    @cache
    def home_of(kind: Kind) -> Path:
        home = tmp_path_factory.mktemp(kind.name)
        with pytest.MonkeyPatch.context() as patch:
            declare_in(home, kind, patch)
            for day in DAYS:
                kind.send(home, day, [bill for bill in FIRST if bill.day == day])
            kind.build(Workshop(home, lambda: spark), "v1")
        return home

    return home_of


def declare_in(home: Path, kind: Kind, patch: pytest.MonkeyPatch) -> None:
    found = Catalog.of([kind.dataset(home)])
    patch.setattr(catalog, "load", lambda _: found)


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def billing(
    request: pytest.FixtureRequest,
    built: Callable[[Kind], Path],
    spark: SparkSession,
    tmp_path: Path,
    type_on: TypeOn,
    monkeypatch: pytest.MonkeyPatch,
) -> Billing:
    """A copy for one cell."""
    kind: Kind = request.param
    home = shutil.copytree(built(kind), tmp_path / "home")
    declare_in(home, kind, monkeypatch)
    workshop = Workshop(home, lambda: spark)
    return Billing(kind, workshop, type_on(workshop))


FROM_BRONZE_ON = pytest.mark.parametrize(
    "billing",
    [
        pytest.param(kind, id=kind.name, marks=pytest.mark.long if kind.name in ("csv", "parquet") else ())
        for kind in KINDS
    ],
    indirect=True,
)
"""From bronze on all that landed is alike: at a small size JSON lines stand for the other formats."""


@FROM_BRONZE_ON
def test_a_campaign_is_approved_undone_and_brought_back(billing: Billing) -> None:
    """``campaign`` and ``undo``."""
    assert billing.amounts() == WRONG
    plan = billing.backfill.json("plan", FACT, "--days", DAYS, "--version", "v2")["plan"]
    ran = billing.backfill.json("run", plan, "--limits", "deviation=50%")
    assert ran["held_back"] == [] and billing.amounts() == WRONG
    approved = billing.backfill.json("approve", plan, "--yes")
    assert billing.amounts() == RIGHT and approved["publication"]
    undone = billing.backfill.json("rollback", plan, "--yes")
    assert billing.amounts() == WRONG
    billing.backfill("rollback", undone["publication"], "--yes")
    assert billing.amounts() == RIGHT


@FROM_BRONZE_ON
def test_what_is_built_is_rewound_and_what_was_sent_is_not(billing: Billing) -> None:
    """``rewind``."""
    billing.build("v2")
    assert billing.amounts() == RIGHT
    (newest, *_) = billing.backfill.json("timeline", "rewind", FACT)["moments"]
    billing.backfill("timeline", "rewind", FACT, "--to", f"{newest['publication']}^", "--as", "before")
    found = billing.backfill.json("diff", "main", "before", "--table", FACT)["by_table"][FACT]["days"]
    assert {each["day"]: (Decimal(each["before"]), Decimal(each["after"])) for each in found} == {
        str(day): (RIGHT[day], WRONG[day]) for day in DAYS
    }
    source = "bills" if isinstance(billing.kind, DeltaOfOthers) else "raw_bills"
    said = billing.refused("timeline", "rewind", source, "--to", f"{newest['publication']}^", "--as", "sent")
    assert f"{source} is not rewound" in said or f"{source} is a table of others: it is not rewound" in said
    assert "Rewind what is computed from it" in said


def test_a_row_is_followed_to_where_it_landed(billing: Billing) -> None:
    """``trace``."""
    if isinstance(billing.kind, Landed):
        found = billing.backfill.json("trace", "1", billing.kind.origin)
        assert [(each["outcome"], each["day"]) for each in found["landed"]] == [("published", str(ONE))]
        return
    said = billing.refused("trace", "1", "bills")
    assert "bills is a table of others: no row of it is here to follow" in said
    assert "others/bills" in said.replace("\n", "")
    assert "is made of bills, which others write" in " ".join(billing.refused("trace", "1", FACT).split())
    assert "Nothing lands here" in billing.refused("trace", "1")


def test_a_broken_row_is_set_aside_or_holds_its_day_back(billing: Billing) -> None:
    """``quarantine``."""
    billing.send(Bill("9", THREE, "-1.00"))
    if isinstance(billing.kind, Landed):
        billing.build()
        (reason,) = billing.backfill.json("raw", "quarantine")["reasons"]
        assert (reason["table"], reason["rows"]) == ("quarantine_bills", 1)
    else:
        with pytest.raises(DaysFailed) as refused:
            billing.build()
        assert [each.day for each in refused.value.failed] == [THREE]
        said = " ".join(billing.refused("raw", "quarantine", "bills").split())
        assert "bills is a table of others: it has no quarantine" in said
        assert "Have the rows corrected where they are written" in said
        assert "Nothing lands here" in billing.refused("raw", "quarantine", FACT)
        assert "Nothing is quarantined" in billing.backfill("raw", "quarantine").output
    assert billing.amounts() == WRONG


def test_late_rows_make_their_day_stale_and_a_run_brings_them(billing: Billing) -> None:
    """``late rows``: a row of the second day that comes on the last one."""
    billing.send(Bill("10", TWO, "100.00"))
    if isinstance(billing.kind, Landed):
        billing.workshop.build("raw_bills", [FOUR])
    else:
        with pytest.raises(InvalidRequest, match="bills has nothing on 2024-01-01"):
            billing.workshop.build("bills", [date(2024, 1, 1)])
        billing.workshop.build("bills", [TWO])
        assert billing.statuses() == {**dict.fromkeys(DAYS, "fresh"), TWO: "stale: input changed"}
    billing.backfill("run", f"+{FACT}", "--days", TWO, "--version", "v1")
    assert billing.amounts() == {**WRONG, TWO: WRONG[TWO] + 200}
    assert billing.statuses() == dict.fromkeys(DAYS, "fresh")


def test_a_repair_is_of_just_the_days_that_moved(billing: Billing) -> None:
    """``repair``: a bill of the third day is corrected."""
    billing.send(Bill("3", THREE, "4.50"))
    for table in billing.kind.above[:1] or ("bills",):
        billing.workshop.build(table, [FOUR])
    steps = declared().steps
    observed = observe(billing.storage, declared().table_names)
    decision = repairs_needed(RepairContext(observed.with_current(steps), observed, now=datetime.now(UTC)))
    days = {table: set(of) for attempt in decision.launch for table, of in attempt.days.items()}
    assert days[FACT] == {THREE} and "bills" not in days
    billing.build()
    assert billing.amounts() == {**WRONG, THREE: WRONG[THREE] + 2}


def test_a_column_that_is_new_is_told_or_left_alone(billing: Billing) -> None:
    """``drift``: what is declared is refused if it is of another type."""
    billing.send(Bill("11", FOUR, "1.00", more="new"))
    billing.build()
    assert billing.amounts() == {**WRONG, FOUR: WRONG[FOUR] + 2}
    said = billing.backfill("status").output.split()
    if not isinstance(billing.kind, DeltaOfOthers):
        assert "more" in said
        return
    assert "more" not in said
    billing.kind.send_doubles(billing.workshop.settings.home)
    with pytest.raises(InvalidRequest, match="'amount' is a double, and is declared as a decimal"):
        billing.build()


@FROM_BRONZE_ON
def test_the_watchdog_reads_what_is_published_here(billing: Billing) -> None:
    """``watchdog``: a file of the fact is gone."""
    spark = billing.workshop.builder.lake.spark
    (gone,) = (billing.workshop.settings.lakehouse / FACT).rglob(f"*{TWO}*/*.parquet")
    gone.unlink()
    watch = Watch(declared(), billing.storage, PublicationLog(billing.storage), spark)
    tables = [table for step in declared().steps for table in step.tables]
    found = watch.look(tables, DAYS)
    assert {(each.table, each.day) for each in found if not each.passed} == {(FACT, TWO)}
    assert ("bills" in {each.table for each in found}) is False
    assert watch.altered([FACT]) == {FACT: {TWO}}


@pytest.mark.parametrize(
    "billing", [each for each in KINDS if not isinstance(each, Landed)], ids=lambda kind: kind.name, indirect=True
)
def test_what_is_done_to_tables_of_ones_own_is_refused_with_what_to_do_instead(billing: Billing) -> None:
    """Of what others write nothing is read again, restored, streamed, built elsewhere, or put back."""
    billing.backfill("timeline", "create", "try")
    for words, said in (
        (("raw", "refresh", "bills", DAYS), "nothing of it lands here"),
        (("raw", "restore", "bills", ONE), "nothing of it lands here"),
        (("stream", "bills", "--from", "landing"), "no events are read into it"),
        (("run", "bills", "--days", DAYS, "--on", "try"), "it is not built on the timeline try"),
    ):
        assert f"bills is a table of others: {said}" in " ".join(billing.refused(*words).split()), words
    log = PublicationLog(billing.storage)
    (look, *_) = log.day_states(log.head(), {"bills"}).values()
    refused = " ".join(billing.refused("rollback", look.publication, "--yes").split())
    assert "is a look at bills, a table of others" in refused and "put back where it is written" in refused
