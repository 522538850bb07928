"""What a person is told of an incident: of which rows and reports, by whom, and what is done. Read, not remembered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from pyspark.sql import types as T

from backfill_assets import clock
from backfill_assets.days import Cadence, TableDay
from backfill_assets.lakehouse.foreign_commits import ForeignCommit, find_foreign_commits
from backfill_assets.lakehouse.records import TOTAL
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.declaration import Reads, Step, Table, Version
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.observed import observe
from backfill_assets.upkeep.effect import NO_ADDRESSES, Addresses, standing_facts
from backfill_assets.upkeep.failed_checks import Disagreement, FailedWatch
from backfill_assets.upkeep.heal import heal
from backfill_assets.upkeep.incidents import Incident, IncidentBook, RepairAttempt, notice_of
from backfill_assets.upkeep.trouble import RepairContext, WriteUnderWay
from backfill_assets_tests.defs.small_chain import inputs_of
from backfill_assets_tests.small_lakehouse import SmallLakehouse, table_of
from backfill_assets_tests.upkeep.incident import incident

pytestmark = pytest.mark.data
DAY, NEXT_DAY, MONDAY = date(2017, 3, 7), date(2017, 3, 8), date(2017, 3, 6)
NOW = datetime(2017, 4, 1, 3, tzinfo=UTC)
EUROS = {1: Decimal("10.50"), 2: Decimal("4.25"), 9: Decimal(100)}


class Line(Contract):
    """A line, by its number."""

    id: T.LongType = Field(key=True)
    amount_eur: Annotated[T.DecimalType, 18, 4] = Field(ge=0)
    day: T.DateType = Field()


def _step(name: str, *reads: Reads, cadence: Cadence = Cadence.DAILY) -> Step:
    table = Table(name, "report" if reads else "fact", "", Line, ("id",), totals=("amount_eur",))
    return Step((table,), (Version("v1", "", reads, dict),), "v1", cadence=cadence)


STEPS = (
    _step("fact"),
    _step("daily", Reads("fact")),
    _step("other"),
    _step("weekly", Reads("fact", partial=True), cadence=Cadence.WEEKLY),
)
TABLES = [step.name for step in STEPS]


class InEuros(SmallLakehouse):
    """Each id is a line of so many euros; what is published was measured."""

    def rows_of(self, table: str, day: date, ids: Sequence[int]) -> pa.Table:
        amounts = pa.array([EUROS[each] for each in ids], pa.decimal128(18, 4))
        return table_of(day, ids).add_column(1, "amount_eur", amounts)

    def bring(self, table: str, day: date, ids: Sequence[int]) -> None:
        """From what is published of its inputs."""
        self.metrics[table] = {f"{TOTAL}amount_eur": str(sum(EUROS[each] for each in ids))}
        step = next(step for step in STEPS if step.name == table)
        inputs = {day: inputs_of(step, day, observe(self.storage, TABLES))}
        self.publish(f"{table}-{day:%m%d}-{self.minutes:.0f}", {table: {day: ids}}, inputs=inputs)


@dataclass
class Watched:
    """Dagster's part: it launches nothing that ends."""

    lakehouse: SmallLakehouse
    watches: list[FailedWatch] = field(default_factory=list)
    launched: list[RepairAttempt] = field(default_factory=list)
    over: list[str] = field(default_factory=list)

    def launch(self, attempt: RepairAttempt) -> None:
        self.launched.append(attempt)

    def ended(self, attempts: object) -> Mapping[str, str]:
        return dict.fromkeys(self.over, "success")

    def look(self, known: object) -> RepairContext:
        observed = observe(self.lakehouse.storage, TABLES)
        busy = {
            table: [WriteUnderWay(each.id)] for each in self.launched for table in each.days if each.id not in self.over
        }
        return RepairContext(STEPS, observed, failed_watches=self.watches, busy=busy)

    def verdicts(self, table: str, publications: Mapping[str, str]) -> Mapping[date, bool]:
        return dict.fromkeys(map(date.fromisoformat, publications if self.over else ()), True)

    def dataset_of(self, table: str) -> str:
        return "lines"

    def plan(self, incident: Incident) -> str:
        return "plan-7"


@pytest.fixture
def lakehouse(tmp_path: Path) -> Iterator[InEuros]:
    """A day of lines, and what is made of it: a day, and a week with another day in it."""
    found = InEuros(tmp_path / "lakehouse", STEPS)
    with clock.use(found.time):
        for table, day, ids in (("fact", DAY, [1, 2]), ("fact", NEXT_DAY, [1]), ("other", DAY, [1])):
            found.bring(table, day, ids)
        found.bring("daily", DAY, [1, 2])
        found.bring("daily", NEXT_DAY, [1])
        found.bring("weekly", MONDAY, [1, 2, 9])
        yield found


def _opened(lakehouse: SmallLakehouse, hands: Watched | None = None) -> Incident:
    """The incident that a look at it opens."""
    at = Addresses(owners=lambda table: (f"team:{table}",))
    heal(lakehouse.storage, hands or Watched(lakehouse), NOW, at)
    (found,) = IncidentBook(lakehouse.storage).open()
    return found


def _facts(incident: Incident) -> dict[str, str]:
    return {each.label: each.words for each in incident.facts}


def _write(lakehouse: InEuros, ids: Sequence[int], **more: str) -> None:
    """Another writer's, beside what was published."""
    rows, info = lakehouse.rows_of("fact", DAY, ids), CommitProperties(custom_metadata=more)
    write_deltalake(lakehouse.newest("fact"), rows, mode="append", commit_properties=info)


def test_a_foreign_write_says_what_it_did_and_who_wrote(lakehouse: InEuros) -> None:
    """Before is what was read in main, and not what the log has of the publication."""
    _write(lakehouse, [9], userName="ann\n")
    found = _opened(lakehouse)
    assert found.cause is Cause.FOREIGN_WRITE
    assert found.before == {DAY: "3 rows, amount 114.75 EUR"}
    said = _facts(found)
    assert said["affected"] == (
        "1 day of fact: 3 rows, amount 114.75 EUR; 1 row and amount 100.00 EUR more than published"
    )
    assert said["reports"] == "daily: 1 day, 2 rows, amount 14.75 EUR; weekly: 1 week, 3 rows, amount 114.75 EUR"
    assert said["owner"] == "team:fact"
    version = lakehouse.newest("fact").version()
    assert said["written by"].startswith("WRITE by delta-rs:")
    assert f", user ann\\n, version {version}, 20" in said["written by"]
    assert said["what is done"].startswith("repair foreign_write_")
    assert said["since"] != f"{NOW:%Y-%m-%d %H:%M} UTC", "when it was written, not when it was seen"


def test_who_wrote_is_looked_for_since_the_last_publication_of_the_day_alone(lakehouse: InEuros) -> None:
    _write(lakehouse, [9])
    lakehouse.bring("fact", DAY, [1])
    lakehouse.bring("fact", NEXT_DAY, [2])
    DeltaTable(lakehouse.storage.uri("fact")).delete(f"day = '{DAY}'")
    state = observe(lakehouse.storage, ["fact"]).states[TableDay("fact", DAY)]
    version = lakehouse.newest("fact").version()
    found = find_foreign_commits(lakehouse.storage, "fact", version, {DAY: state.publication})
    assert [(each.version, each.operation) for each in found] == [(version, "DELETE")]
    assert find_foreign_commits(lakehouse.storage, "fact", version, {NEXT_DAY: ""}) == []


def test_a_writer_that_says_nothing_of_itself() -> None:
    assert str(ForeignCommit(7)) == "a write by an engine that does not say its name, version 7"


def test_a_sum_that_disagrees_is_told_with_both_sides_and_by_how_much(lakehouse: InEuros) -> None:
    state = observe(lakehouse.storage, ["daily"]).states[TableDay("daily", DAY)]
    sums = Disagreement("revenue_agrees", "14.75, the amount_eur of fact", "amount_eur adds up to 1,014.70")
    watch = FailedWatch("daily", DAY, state.publication, state.physical, ("revenue_agrees",), disagreements=(sums,))
    found = _opened(lakehouse, Watched(lakehouse, [watch]))
    words = "revenue_agrees: expected 14.75, the amount_eur of fact, observed amount_eur adds up to 1,014.70 (+999.95)"
    assert (found.cause, found.words) == (Cause.DISAGREES, words)
    assert _facts(found)["disagrees"] == words
    assert _facts(found)["affected"] == "1 day of daily: 2 rows, amount 14.75 EUR; as many as were published"


def test_files_that_are_gone_are_said_with_what_was_published(lakehouse: InEuros) -> None:
    """What cannot be read has no figures of its own."""
    state = observe(lakehouse.storage, ["fact"]).states[TableDay("fact", DAY)]
    (uri,) = lakehouse.newest("fact").file_uris(file_pruning_predicate=[("day", "=", str(DAY))])
    Path(uri).unlink()
    watch = FailedWatch("fact", DAY, state.publication, state.physical, ("files_as_published",), lost=True)
    found = _opened(lakehouse, Watched(lakehouse, [watch]))
    assert found.before == {DAY: "1 file is gone"}
    assert _facts(found)["affected"] == "1 day of fact: 1 file is gone; published were 2 rows, amount 14.75 EUR"


def test_a_damaged_file_hides_no_other_day(lakehouse: InEuros) -> None:
    watches = []
    for day in (DAY, NEXT_DAY):
        state = observe(lakehouse.storage, ["fact"]).states[TableDay("fact", day)]
        watches.append(FailedWatch("fact", day, state.publication, state.physical))
    (uri,) = lakehouse.newest("fact").file_uris(file_pruning_predicate=[("day", "=", str(DAY))])
    Path(uri).write_bytes(b"no parquet")
    found = _opened(lakehouse, Watched(lakehouse, watches))
    assert found.before[DAY].startswith("it cannot be read: ")
    assert found.before[NEXT_DAY] == "1 row, amount 10.50 EUR"


def test_links_are_told_where_it_is_known_where_the_ui_is(lakehouse: InEuros) -> None:
    """And no message has one that leads nowhere: the incident itself keeps those of any UI."""
    _write(lakehouse, [9])
    found = _opened(lakehouse).model_copy(update={"plan": "plan-7"})
    (attempt,) = found.attempts
    at = Addresses("https://dagster", lambda plan: f"/plans/{plan}")
    told = notice_of(found.model_copy(update={"facts": standing_facts(found, at)}), "opened")
    assert {each.label: each.link for each in at.told(told).facts if each.link} == {
        "page": "https://dagster/assets/incidents",
        "repair": f"https://dagster/runs/b/{attempt.id}",
        "plan": "https://dagster/plans/plan-7",
    }
    without = NO_ADDRESSES.told(told).facts
    assert not any(each.link for each in without) and "page" not in {each.label for each in without}


def test_what_is_done_follows_the_incident_and_what_was_seen_stays(lakehouse: InEuros) -> None:
    """What was seen when it was opened is not looked up again."""
    _write(lakehouse, [9])
    hands = Watched(lakehouse)
    found = _opened(lakehouse, hands)
    IncidentBook(lakehouse.storage).ask_to_acknowledge(found, "bob", "on it", NOW, NOW + timedelta(hours=4))
    again = _opened(lakehouse, hands)
    assert _facts(again) == {**_facts(found), "looked after": "bob until 2017-04-01 07:00 UTC: on it"}


def test_what_was_wrong_is_still_said_when_it_is_over(lakehouse: InEuros) -> None:
    """The day is as published again, and its incident tells of the rows that were too many."""
    _write(lakehouse, [9])
    hands = Watched(lakehouse)
    found = _opened(lakehouse, hands)
    lakehouse.bring("fact", DAY, [1, 2])
    again = _opened(lakehouse, hands)
    assert _facts(again)["affected"] == _facts(found)["affected"]
    hands.over = [each.id for each in hands.launched]
    for _ in range(2):
        heal(lakehouse.storage, hands, NOW)
    (closed,) = IncidentBook(lakehouse.storage).closed_since(datetime(2000, 1, 1, tzinfo=UTC))
    assert _facts(closed)["affected"] == _facts(found)["affected"]
    assert "what is done" not in _facts(closed), "nothing is done any more"
    assert closed.after == {DAY: "2 rows, amount 14.75 EUR"}, "as it was read again"


def test_an_incident_of_a_table_that_is_declared_wrong_stays_as_it_is(
    lakehouse: InEuros, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looks at the table now: whether its days are right is not known, and nothing is told."""
    _write(lakehouse, [9])
    hands = Watched(lakehouse)
    opened = _opened(lakehouse, hands)
    hands.over = [each.id for each in hands.launched]
    sight = RepairContext(STEPS[2:3], observe(lakehouse.storage, ["other"]))
    monkeypatch.setattr(hands, "look", lambda known: sight)
    for _ in range(3):
        assert heal(lakehouse.storage, hands, NOW + timedelta(hours=5), left_out={"fact"}).closed == []
    assert IncidentBook(lakehouse.storage).open() == [opened]
    heal(lakehouse.storage, hands, NOW + timedelta(hours=5))
    assert IncidentBook(lakehouse.storage).open() != [opened]


def test_an_acknowledgement_ends_with_its_time(lakehouse: InEuros) -> None:
    """Its incident says so, and nobody looks after it."""
    state = observe(lakehouse.storage, ["daily"]).states[TableDay("daily", DAY)]
    hands = Watched(lakehouse, [FailedWatch("daily", DAY, state.publication, state.physical, ("sums",))])
    found = _opened(lakehouse, hands)
    book = IncidentBook(lakehouse.storage)
    book.ask_to_acknowledge(found, "bob", "", NOW, NOW + timedelta(hours=4))
    assert "looked after" in _facts(_opened(lakehouse, hands))
    heal(lakehouse.storage, hands, NOW + timedelta(hours=5))
    (again,) = book.open()
    assert "looked after" not in _facts(again)
    assert again.history[-1].words == "no longer acknowledged: its time has passed"


def test_a_notice_has_the_facts_and_the_one_step(lakehouse: InEuros) -> None:
    _write(lakehouse, [9])
    found = _opened(lakehouse).model_copy(update={"next_step": "backfill run plan-7"})
    told = notice_of(found, "opened")
    assert (told.facts, told.to_do) == (found.facts, "backfill run plan-7")
    assert "backfill run plan-7" not in " ".join(told.lines)
    assert notice_of(found, "closed").to_do == ""


def test_the_end_compares_the_first_days_that_changed_and_nothing_that_could_not_be_read() -> None:
    days = tuple(DAY + timedelta(days=number) for number in range(9))
    over = {"days": days, "outcome": "repaired", "after": dict.fromkeys(days, "2 rows")}
    told = notice_of(incident(**over, before=dict.fromkeys(days[1:], "1 row")), "closed")
    assert told.lines[1:-1] == (*(f"{day}: 1 row -> 2 rows" for day in days[1:6]), "and 3 more days")
    assert notice_of(incident(**over), "closed").lines[:-1] == ("repaired",)
