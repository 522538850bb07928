"""One cause is one incident, told once: what is opened, joined, told and closed, as a table of what happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import pytest

from backfill_assets.days import TableDay
from backfill_assets.upkeep.bounds import RepairBounds
from backfill_assets.upkeep.incidents import Incident
from backfill_assets_tests.simulator.store import SimulatedStorage
from backfill_assets_tests.upkeep.healing import WEEKS, Lakehouse, Life, sound
from backfill_assets_tests.upkeep.on_call import FAULTS
from backfill_assets_tests.upkeep.weeks import put_back_by

pytestmark = pytest.mark.data
Event = Callable[[Life], object]
D, E, LATER = date(2017, 1, 10), date(2017, 1, 11), date(2017, 1, 17)
RAW, BRONZE, FACT = (TableDay(table, D) for table in ("raw", "bronze", "fact"))
TYPED = "warning, as_declared: expected the declared fields of sales, each of its type, observed {} -> Ask the source."
EUR = "sales_value is of another type: 3,900 of 3,900 rows (100 %) on {}, for example EUR 1.59"
TIER = "tier is not declared: 5 of 3,905 rows (0.1 %) on {}, for example gold"
USUAL = "warning, as_usual: expected {} (median 3,900 of 8 {:%A}s), observed {} -> Compare the day with its source."


# ------------------------------------------------------------------ what happens


def says(check: str, words: str, day: date = D, table: str = "raw") -> Event:
    return lambda life: life.suspicions.setdefault(TableDay(table, day), {}).__setitem__(check, words)


def typed(fields: str = EUR, day: date = D) -> Event:
    return says("as_declared", TYPED.format(fields.format(day)), day)


def unusual(observed: str, day: date = D, table: str = "raw", expected: str = "3,500 to 4,300") -> Event:
    return says("as_usual", USUAL.format(expected, day, observed), day, table)


def fine(table: str = "raw", day: date = D) -> Event:
    return lambda life: life.suspicions.pop(TableDay(table, day), None)


def rows_land(checksum: str, day: date = D) -> Event:
    return lambda life: life.world.publish("raw", day, checksum=checksum, rows=2)


def bad(day: date = D) -> Event:
    return lambda life: life.bad.add(TableDay("bronze", day))


def good(day: date = D) -> Event:
    return lambda life: life.bad.discard(TableDay("bronze", day))


def overwritten(table: str, day: date = D) -> Event:
    return lambda life: life.world.write_past_the_protocol(table, day)


def put_back(table: str, day: date = D) -> Event:
    """The writer takes its files away again."""
    return lambda life: life.world.newest[table].__setitem__(day, life.world.states[TableDay(table, day)].physical)


def streamed(day: date = D) -> Event:
    return lambda life: FAULTS["held back from a stream"].begins(life, day)


def released(day: date = D) -> Event:
    return lambda life: FAULTS["held back from a stream"].ends(life, day)


def four_o_clock(life: Life) -> None:
    life.four_o_clock()


def never_built(table: str, *days: date) -> Event:
    return lambda life: life.world.forget(table, *days)


def rolled_back(life: Life) -> None:
    """A person puts the fact back, and its input is newer since."""
    life.world.publish("bronze", D, checksum="12")
    put_back_by("undo", *FACT)(life.world)


def closed(life: Life) -> None:
    for each in life.book.open():
        life.book.ask_to_close(each, "ann", "Easter", life.now)


def acknowledged(hours: int | None = None) -> Event:
    def acknowledge(life: Life) -> None:
        for each in life.book.open():
            until = life.now + timedelta(hours=hours) if hours else None
            assert life.book.ask_to_acknowledge(each, "ann", "asked the source", life.now, until)

    return acknowledge


def at_once(*events: Event) -> Event:
    return lambda life: [event(life) for event in events]


def canceled(life: Life) -> None:
    """What is launched ends and leaves nothing, not even what its gates said."""
    life.tick()
    life.over |= dict.fromkeys(life.launched, "canceled")


def beyond_bounds(life: Life) -> None:
    """A person approves each repair."""
    life.bounds = RepairBounds(days=1)


def hours(number: int) -> Event:
    """Time goes on, with two looks an hour."""
    return lambda life: life.go_on(number * 2, minutes=30)


@dataclass(frozen=True)
class Row:
    """What happens, one after the other, and what there is in the end: each incident with all that was told of it."""

    name: str
    events: Sequence[Event]
    incidents: Mapping[str, str]
    """``table: cause: number of days: state``, also with what it says; and the stages that were told."""
    follows: Mapping[str, tuple[date, ...]] | None = None
    """What has joined the one incident that others follow."""


ROWS = (
    Row(
        "two checks of one raw day are one incident with the graver cause",
        [typed(), unusual("sales_value 1.59", expected="3.1 to 3.4")],
        {"raw: fields changed: 1: person": "opened"},
    ),
    Row(
        "also where the lesser one was seen first, and the right lines come as a second file",
        [unusual("sales_value 1.59", expected="3.1 to 3.4"), typed(), rows_land("8"), unusual("rows 7,800"), hours(2)],
        {"raw: fields changed: 1: person": "opened", "bronze: late rows: 1: closed": ""},
    ),
    Row(
        "a broken raw day and all that is made of it",
        [
            typed(),
            unusual("rows 12", table="fact"),
            bad(),
            rows_land("8"),
            hours(2),
            unusual("rows 9", table="revenue"),
        ],
        {"raw: fields changed: 1: person": "opened", "bronze: late rows: 1: closed": ""},
        follows={"bronze": (D,), "fact": (D,), "revenue": (D,)},
    ),
    Row(
        "it is the same one where what follows was seen first",
        [bad(), rows_land("8"), hours(0), typed()],
        {"raw: fields changed: 1: person": "given-up"},
        follows={"bronze": (D,)},
    ),
    Row(
        "what was told long before is another cause, and the graver one is told",
        [unusual("rows 12", table="fact"), hours(2), says("as_sent", "expected rows 9, observed rows 1")],
        {"fact: unusual figures: 1: person": "opened", "raw: delivery incomplete: 1: waiting": "opened"},
    ),
    Row(
        "and it is over with all that followed",
        [typed(), unusual("rows 12", table="fact"), fine(), fine("fact"), hours(1)],
        {"raw: fields changed: 1: closed": "opened closed"},
    ),
    Row(
        "a source that goes on with the same fields is one incident",
        [typed(), typed(day=E), hours(30), typed(day=LATER)],
        {"raw: fields changed: 3: person": "opened"},
    ),
    Row(
        "other fields that land later on the same day are another fault",
        [typed(TIER), rows_land("8"), typed(EUR + "; " + TIER.replace("{}", str(D)))],
        {
            "raw: fields changed: 1: closed": "opened closed",
            "raw: fields changed: 1: person": "opened",
            "bronze: late rows: 1: closed": "",
        },
    ),
    Row(
        "a half day, an empty day and a doubled day have words of their own",
        [
            unusual("rows 1,950"),
            says("as_usual", USUAL.format("rows, as on each before", E, "no rows"), E),
            unusual("rows 7,800", day=LATER),
        ],
        {
            "raw: unusual figures: 1: person: rows below": "opened",
            "raw: unusual figures: 1: person: no rows": "opened",
            "raw: unusual figures: 1: person: rows above": "opened",
        },
    ),
    Row(
        "days beside each other of which the same is said are one",
        [unusual("rows 1,950"), hours(24), unusual("rows 2,100", day=E)],
        {"raw: unusual figures: 2: person: rows below": "opened"},
    ),
    Row(
        "the same on another day, much later, is another one",
        [unusual("rows 1,950"), hours(24), unusual("rows 2,100", day=LATER)],
        {
            "raw: unusual figures: 1: person: rows below": "opened",
            "raw: unusual figures: 1: person": "opened",
        },
    ),
    Row(
        "reports that were read while the fact was wrong follow from it, and are read again",
        [at_once(overwritten("fact"), four_o_clock), hours(1)],
        {"fact: foreign write: 1: closed": "opened closed"},
        follows={"revenue": (D,), "weekly": (date(2017, 1, 9),)},
    ),
    Row(
        "also where the writer takes its files away again",
        [beyond_bounds, at_once(overwritten("fact"), four_o_clock), hours(1), put_back("fact"), hours(1)],
        {"fact: foreign write: 1: closed": "opened closed"},
    ),
    Row(
        "reports that disagree with a fact that is sound are one for a person",
        [lambda life: life.disagreeing.add(TableDay("revenue", D)), four_o_clock, hours(1)],
        {"revenue: tables disagree: 1: person": "opened"},
    ),
    Row(
        "which holds when a person closes it",
        [lambda life: life.disagreeing.add(TableDay("revenue", D)), four_o_clock, closed, hours(26), four_o_clock],
        {"revenue: tables disagree: 1: closed": "opened closed"},
    ),
    Row(
        "until the day is another one",
        [unusual("rows 12"), closed, hours(2), rows_land("9"), hours(1)],
        {
            "raw: unusual figures: 1: closed": "opened closed",
            "raw: unusual figures: 1: person": "opened",
            "bronze: late rows: 1: closed": "",
        },
    ),
    Row(
        "what follows from a closed one is closed with it, also what is seen later",
        [unusual("rows 12"), unusual("rows 12", table="fact"), closed, hours(1), unusual("rows 12", table="revenue")],
        {"raw: unusual figures: 1: closed": "opened closed"},
    ),
    Row(
        "two foreign writes are two causes, also where the repair of one rebuilds the other",
        [at_once(overwritten("bronze"), overwritten("revenue")), hours(1)],
        {"bronze: foreign write: 1: closed": "opened closed", "revenue: foreign write: 1: closed": "opened closed"},
    ),
    Row(
        "sound days whose neighbours failed their gates are built without a word",
        [
            at_once(never_built("bronze", D, E), never_built("quarantine", D, E), bad()),
            hours(3),
        ],
        {"bronze: held back: 1: person": "given-up", "fact: input changed: 1: closed": ""},
        follows={"bronze": (E,), "fact": (D, E)},
    ),
    Row(
        "a day that a gate holds back from a stream, which goes on reading, and is started anew",
        [streamed(), hours(3), released(), hours(1)],
        {"bronze: held back: 1: closed": "opened closed"},
    ),
    Row(
        "a producer that goes on over midnight is one incident, released day by day",
        [streamed(), hours(3), streamed(E), hours(1), released(), hours(1)],
        {"bronze: held back: 1: person": "opened"},
    ),
    Row(
        "what a person has closed stays so, however many events come, until it is held back anew",
        [streamed(), closed, hours(3), released(), hours(1), streamed(), hours(1)],
        {"bronze: held back: 1: closed": "opened closed", "bronze: held back: 1: person": "opened"},
    ),
    Row(
        "days that are right again leave the incident",
        [at_once(bad(), bad(E), rows_land("8"), rows_land("8", E)), hours(1), good(E), rows_land("9", E), hours(1)],
        {"bronze: held back: 1: person": "given-up", "bronze: late rows: 1: closed": ""},
    ),
    Row("a first build is none", [never_built("revenue", *WEEKS), hours(2)], {}),
    Row("nor is a day that grows at the end", [never_built("revenue", WEEKS.last), hours(2)], {}),
    Row(
        "a first build that fails is one",
        [
            lambda life: life.flaky.update({TableDay("revenue", WEEKS.last): 1}),
            never_built("revenue", WEEKS.last),
            hours(2),
        ],
        {"revenue: run failed: 1: closed": "opened closed"},
    ),
    Row(
        "a first build that ends without its days is one",
        [at_once(never_built("revenue", WEEKS.last), canceled), hours(2)],
        {"revenue: missing: 1: closed": ""},
    ),
    Row("a person's own rollback is none", [rolled_back, hours(2)], {}),
    Row(
        "a foreign write into it is one for a person: a repair would end the rollback",
        [rolled_back, hours(2), at_once(overwritten("fact"), four_o_clock), hours(3)],
        {"fact: foreign write: 1: person": "opened"},
    ),
    Row(
        "over when the writer takes its files away again: the rollback still holds",
        [rolled_back, hours(2), overwritten("fact"), hours(1), put_back("fact"), hours(3)],
        {"fact: foreign write: 1: closed": "opened closed"},
    ),
    Row(
        "what is acknowledged is quiet until it is over",
        [unusual("rows 12"), acknowledged(), hours(30), fine(), hours(1)],
        {"raw: unusual figures: 1: closed": "opened closed"},
    ),
    Row(
        "it is told again when the time of who looks after it has passed",
        [unusual("rows 12"), acknowledged(hours=4), hours(30)],
        {"raw: unusual figures: 1: person": "opened again-1"},
    ),
    Row(
        "and when it becomes graver meanwhile",
        [unusual("rows 12"), acknowledged(), hours(1), says("as_sent", "expected rows 9, observed rows 1"), hours(1)],
        {"raw: delivery incomplete: 1: waiting": "opened again-1"},
    ),
)


@pytest.fixture(scope="module")
def weeks() -> Lakehouse:
    return sound(WEEKS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_is_opened_joined_told_and_closed(row: Row, weeks: Lakehouse, memory: SimulatedStorage) -> None:
    life = Life.beginning(memory, weeks)
    for event in row.events:
        event(life)
        life.go_on(3)
    found = [*life.book.open(), *life.closed()]
    told = life.told_of(found)
    seen = sorted((_named(each), said, told[each.id]) for each in found for said in [_said(each)])
    for name, stages in row.incidents.items():
        fits = [each for each in seen if name in (each[0], f"{each[0]}: {each[1]}") and each[2] == stages]
        assert fits, (name, stages, seen, [each.history for each in found])
        seen.remove(fits[0])
    assert not seen, [each.history for each in found]
    if row.follows is not None:
        assert [each.follows for each in found if each.follows] == [row.follows]


def _named(incident: Incident) -> str:
    return f"{incident.table}: {incident.cause}: {len(incident.days)}: {incident.state}"


def _said(incident: Incident) -> str:
    return incident.saying.partition("observed ")[2].replace("# ", "")
