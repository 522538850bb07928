"""What thirteen screens look like: kept in golden_files/, at 80 columns, on a pipe and as JSON.

``python -m backfill_assets_tests.cli.golden`` (``make golden``) writes them again; look at what changed before it is
committed. The lakehouse is a small one, with fixed ids and a fixed clock. Nothing starts Spark: commands that need it
find what ``without_spark`` states.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from click.testing import CliRunner, Result

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.cli import main
from backfill_assets.cli.group import command_names
from backfill_assets.difference.difference import (
    Cell,
    ChangedRow,
    DayCompared,
    GroupCompared,
    GroupsCompared,
    RowCounts,
    Sums,
    TableCompared,
)
from backfill_assets.difference.find import keep_difference, last_difference
from backfill_assets.difference.verdict import difference_of
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.judge.engine import declared_types
from backfill_assets.lakehouse import campaign_journal as journal
from backfill_assets.lakehouse.campaign_journal import (
    STEPS,
    CampaignStep,
    JournalEntry,
    Spent,
    campaign_of,
)
from backfill_assets.lakehouse.campaign_reports import AnnouncedReport, ComparedReport, Report, StagedReport
from backfill_assets.lakehouse.named_timelines import NamedTimeline, TimelineBase, create_timeline
from backfill_assets.lakehouse.plans import keep_plan
from backfill_assets.lakehouse.records import DayContent, Notice
from backfill_assets.lakehouse.records import Detail as Told
from backfill_assets.lakehouse.timelines import GateVerdict
from backfill_assets.landing.zone import LandedFile
from backfill_assets.model.declaration import Step
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.records import Plan, PlannedStep, PlanRequest, PlanTerms
from backfill_assets.publish.outbox import announce
from backfill_assets.publish.publisher import CrashPoint
from backfill_assets.rebuild.changed_files import ArrivalFiles
from backfill_assets.rebuild.outcome import BuildResult, BuiltDay
from backfill_assets.rebuild.refresh import RefreshResult
from backfill_assets.state.diagnosis import Cause
from backfill_assets.state.view import View
from backfill_assets.text import pluralize
from backfill_assets.upkeep.incidents import Acknowledgement, Happened, Incident, IncidentBook
from backfill_assets_tests.cli.terminal import terminal
from backfill_assets_tests.small_lakehouse import PROVENANCE, SmallLakehouse

FIRST = date(2017, 3, 1)
NEXT, LAST = FIRST + timedelta(days=1), FIRST + timedelta(days=2)
_PUBLICATIONS = {
    "raw_sales": "20170601t120100-raw-sales-1a2b3c4d",
    "fact_sales_transactions": "20170601t120300-fact-sales-transactions-3c4d5e6f",
}
"""As they are in the lakehouse, so that they have short ids."""


def _build(_: object, step: Step, days: Sequence[date], **asked: Any) -> BuildResult:
    """Every day but the last is computed; a bronze table sets a row of each aside."""
    asked["progress"](f"{step.name}: {len(days)}/{len(days)} {pluralize(step.cadence.noun)} staged, ETA 0 s")
    publication = _PUBLICATIONS.get(step.name, "20170601t120330-fact-daily-revenue-7a8b9cad")
    built = [
        BuiltDay(
            table=table.name,
            day=day,
            rows=1000 + day.day,
            checksum="7",
            publication=publication,
            table_version=2,
            code_version="v1",
            reused=day == days[-1] and len(days) > 1,
            input_fingerprint="x",
            seconds=1.5,
        )
        for table in step.tables
        for day in days
    ]
    return BuildResult(tuple(built), (publication,))


_FILES = (
    ArrivalFiles(
        FIRST,
        unchanged=(LandedFile("sales", FIRST, "sales/2017-03-01/a.jsonl.gz", 100, "1"),),
        changed=(LandedFile("sales", FIRST, "sales/2017-03-01/b.jsonl.gz", 100, "2"),),
        gone=("sales/2017-03-01/c.jsonl.gz",),
    ),
)


_ROWS = {FIRST: (12, 3), NEXT: (0, 1)}


_PATCHES: tuple[tuple[str, object], ...] = (
    ("cli.foreground.foreground_spark", mock.MagicMock()),
    ("rebuild.builder.Builder.build", _build),
    ("difference.find.find_difference", lambda lake, plan, *_, **known: last_difference(lake.storage, plan.id)),
    ("rebuild.builder.Builder.preview_refresh", lambda *_: RefreshResult(_FILES, _ROWS, dry_run=True)),
    ("rebuild.builder.Builder.refresh", lambda *_, **__: RefreshResult(_FILES, _ROWS, _PUBLICATIONS["raw_sales"])),
)


@contextmanager
def without_spark() -> Iterator[None]:
    """Commands find what is stated here."""
    with ExitStack() as stack:
        for name, instead in _PATCHES:
            stack.enter_context(mock.patch(f"backfill_assets.{name}", instead))
        yield


FOLDER = Path(__file__).parent / "golden_files"
WIDTH = 80
STYLE = re.compile(r"\x1b\[[0-9;]*m")
MADE = datetime(2017, 6, 1, 12, tzinfo=UTC)
FIRST, LAST = date(2017, 3, 1), date(2017, 3, 3)
DAYS = [FIRST + timedelta(days=n) for n in range(3)]
FACT, REVENUE = "fact_sales_transactions", "fact_daily_revenue"
PLAN = Plan(
    asked=PlanRequest(
        target=REVENUE,
        days=f"{FIRST}..{LAST}",
        expectations=tuple(map(Expectation.parse, ("revenue_eur < 1%", "revenue_eur < 2% a day"))),
        terms=PlanTerms(title="Rates of the right day", reason="v1 took those of the day before"),
    ),
    steps=(PlannedStep(tables=(REVENUE,), version="v1", rebuild={Cause.CODE_CHANGED: (f"{FIRST}..{LAST}",)}),),
    made_at=MADE,
)


TIMELINE = NamedTimeline(
    id="timeline-20170601t121000-0a1b2c3d", name="with-v2", made_at=MADE, changed_at=MADE, by="ana", base=TimelineBase()
)

NOTICE = Notice(title="March is rebuilt", lines=("revenue -0.57 %",), reports=(REVENUE,))
INCIDENT = Incident(
    id="foreign-write-fact-sales-transactions-20170302-1",
    table=FACT,
    dataset="sales",
    cause=Cause.FOREIGN_WRITE,
    severity="warning",
    confidence="1",
    days=(DAYS[1],),
    words="main holds files that no publication named",
    next_step=f"backfill run {FACT}+ --days {DAYS[1]}",
    state="person",
    opened=MADE,
    before={DAYS[1]: "7,942 rows, amount 24,690.12 EUR"},
    history=(Happened(at=MADE, words="opened: main holds files that no publication named"),),
    acknowledged=Acknowledgement(by="ana (OS user, uid 1000)", at=MADE, until=MADE + timedelta(hours=4)),
    facts=(
        Told(label="since", words="2017-06-01 11:58 UTC"),
        Told(
            label="affected",
            words=f"1 day of {FACT}: 7,942 rows, amount 24,690.12 EUR; 3,971 rows and amount 12,345.06 EUR more than "
            "published",
        ),
        Told(label="reports", words=f"{REVENUE}: 1 day, 43 rows, revenue 12,345.06 EUR"),
        Told(label="written by", words="WRITE by Apache-Spark/4.0.0, user ana, version 17, 2017-06-01 11:58 UTC"),
    ),
)
RAW, BRONZE, FACTS, AGAIN = (
    "20170601t120100-raw-sales-1a2b3c4d",
    "20170601t120200-bronze-sales-2b3c4d5e",
    "20170601t120300-fact-sales-transactions-3c4d5e6f",
    "20170601t120400-fact-sales-transactions-4d5e6f70",
)
UNDO, DEAD = "rollback-20170601t120500-5e6f70", "20170601t120600-fact-daily-revenue-6f708192"
_NOTHING = ("rescued", "unparsed_line", "record_kind", "superseded_by_day", "deduplicated_rows", "deduplicated_hash")
_VALUES: Mapping[str, Callable[[int, date], object]] = {
    **dict.fromkeys(_NOTHING, lambda id, day: None),
    "transaction_id": lambda id, day: f"basket {id}-product {id}",
    "reasons": lambda id, day: [f"quantity: 'many {id}' is not a bigint"],
    "source_file": lambda id, day: f"sales/{day}/a.jsonl.gz",
    "arrival_day": lambda id, day: day,
    "day_is_arrival": lambda id, day: False,
    "currency": lambda id, day: "USD",
}
_UNSTABLE = (
    (re.compile(r"\d+\.\d KiB"), "1.5 KiB"),
    (re.compile(r"20[2-9]\d-\d\d-\d\d \d\d:\d\d:\d\dZ"), "2017-06-01 12:30:00Z"),
    (re.compile(r"20[2-9]\d-\d\d-\d\dT[\d:.]+(Z|\+00:00)"), "2017-06-01T12:30:00Z"),
    (re.compile(r"\b0\.\d s\b"), "0.1 s"),
    (re.compile(r'"seconds": 0\.\d+'), '"seconds": 0.1'),
    (re.compile(r"part-00000-[0-9a-f-]{36}-c000"), "part-00000-0123abcd-0123-abcd-0123-0123456789ab-c000"),
    (re.compile(r"[\d,]+ bytes"), "496 bytes"),
    (re.compile(r'"(bytes|size|read|written)": [1-9]\d*'), r'"\1": 496'),
    (re.compile(r"version \d+\.\d+\.\d+"), "version 0.0.0"),
    (re.compile(r"^\d\d:\d\d:\d\dZ ", re.MULTILINE), "12:30:00Z "),
)


CASES: Mapping[str, Sequence[str]] = {
    "help": [],
    "plan": [
        f"plan {REVENUE} --days {FIRST}..{LAST}",
        f"plan {REVENUE} --days {LAST}..{FIRST}",
        "plan plan-0000",
    ],
    "run": [
        f"run {FACT}+ --version v1 --days {FIRST}..{LAST} --dry-run",
        f"run {FACT}+ --days {FIRST}..{LAST}",
        "run plan-nosuch",
        f"run {FACT}",
    ],
    "diff": [f"diff {PLAN.id[:12]}", "diff main with-v2", "diff main nowhere"],
    "approve": [f"approve {PLAN.id[:12]}"],
    "rollback": [
        "rollback 5e6f70 --dry-run",
        "rollback 5e6f70",
        "rollback 4d5e6f7",
        "rollback 2017",
    ],
    "status": [
        "status",
        f"status {FACT} {REVENUE} --days {FIRST}..{LAST}",
        f"status {PLAN.id[:12]}",
    ],
    "show": [f"show {FACT} {FIRST}", f"show {FACT} {FIRST} --at 3c4d5e6"],
    "history": ["history", f"history {REVENUE} --days {FIRST}"],
    "incident": ["incident list", f"incident show {INCIDENT.id}"],
    "trace": ["trace 'basket 1-product 1'", "trace no-such-key"],
    "timeline": ["timeline list", "timeline show with-v2", f"timeline rewind {FACT}"],
    "raw": [
        "raw quarantine",
        f"raw quarantine quarantine_sales {FIRST}",
        f"raw refresh raw_sales {FIRST} --dry-run",
        f"raw refresh raw_sales {FIRST}",
        f"raw refresh raw_sale {FIRST}",
        "raw positions raw_sales",
        "raw positions bronze_sales 2b3c4d5",
    ],
}
"""What is tried of each command, beside its help. Everything else that commands print is compared as data."""


class DeclaredLakehouse(SmallLakehouse):
    """Its rows have the columns that their tables declare, with values made from the id."""

    def rows_of(self, table: str, day: date, ids: Sequence[int]) -> pa.Table:
        types = declared_types(CATALOG.table(table).contract)
        columns = {name: pa.array([_value(name, kind, id, day) for id in ids], kind) for name, kind in types.items()}
        return pa.table(columns | {"day": pa.array([day] * len(ids), pa.date32())})


def _value(name: str, kind: pa.DataType, id: int, day: date) -> Any:
    if name in _VALUES:
        return _VALUES[name](id, day)
    if pa.types.is_timestamp(kind):
        return datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    if pa.types.is_string(kind):
        return f"{name.removesuffix('_id')} {id}"
    return day if pa.types.is_date(kind) else Decimal(id) if pa.types.is_decimal(kind) else id


def build(home: Path) -> None:
    """A lakehouse with a history: two versions of a fact, an undo, a dead process, a campaign and a timeline."""
    lakehouse = DeclaredLakehouse(home / "lakehouse")
    lakehouse.publish(RAW, {"raw_sales": {day: [day.day, 10 + day.day] for day in DAYS}})
    accepted = {day: [day.day] for day in DAYS}
    lakehouse.metrics = {"quarantine_sales": {"from.raw_sales.received": 310}}
    lakehouse.publish(BRONZE, {"bronze_sales": accepted, "quarantine_sales": {FIRST: [101, 102], LAST: [103]}})
    lakehouse.publish(FACTS, {FACT: {day: [100, day.day] for day in DAYS}}, code="v1")
    lakehouse.publish("20170601t120330-fact-daily-revenue-7a8b9cad", {REVENUE: {day: [day.day] for day in DAYS}})
    lakehouse.publish(AGAIN, {FACT: {day: [200, day.day] for day in DAYS}}, code="v2")
    base = View.newest(lakehouse.storage)
    lakehouse.minutes += 1
    undone = PROVENANCE.model_copy(update={"reason": f"rollback of {AGAIN}"})
    with clock.use(lakehouse.time):
        roll_back(lakehouse.publisher, AGAIN, id=UNDO, steps=CATALOG.steps, provenance=undone)
    storage = lakehouse.storage
    moment = TimelineBase(sequence=base.sequence, versions=base.versions)
    create_timeline(storage, TIMELINE.model_copy(update={"base": moment}))
    keep_plan(storage, PLAN.id, PLAN.to_json())
    campaign = campaign_of(PLAN.id)
    journal.write(storage, campaign, JournalEntry(kind="started", at=MADE, by="ana"))
    found = difference_of(PLAN, [_revenue_compared()], log_entry=20, made_at=MADE)
    reports: dict[CampaignStep, Report] = {
        CampaignStep.ANNOUNCE: AnnouncedReport(notice="It is announced"),
        CampaignStep.SHADOW: StagedReport(staged={REVENUE: (f"{FIRST}..{LAST}",)}, held_back_days={}),
        CampaignStep.VALIDATE: ComparedReport(
            sentence=found.sentence, fingerprint=found.fingerprint, held_back_days={}
        ),
    }
    for number, step in enumerate(STEPS[:5]):
        entry = JournalEntry(
            kind="step",
            step=step,
            at=MADE + timedelta(seconds=number),
            by="ana",
            spent=Spent(seconds=number + 0.5),
            report=reports.get(step, Report()),
        )
        journal.write(storage, campaign, entry)
    staged = lakehouse.stage(f"{campaign}-0a1b2c3d", REVENUE, {day: [day.day, 7] for day in DAYS})
    staged.open()
    content = DayContent(rows=2, checksum="7", code_version="v1", inputs="", metrics={"rows": 2})
    staged.judge({day: GateVerdict(input_fingerprint="x", passed=True, content=content) for day in DAYS})
    keep_difference(storage, found)
    announce(storage, f"{campaign}.start", NOTICE)
    IncidentBook(storage).write(INCIDENT)
    lakehouse.crash(DEAD, {REVENUE: {FIRST: [9]}}, at=CrashPoint.PREPARED)


def _revenue_compared() -> TableCompared:
    """Two days of three lose 0.57 of 100 euros; a row and a group of each kind."""
    changed = (RowCounts(changed=3, added=1, unchanged=2), RowCounts(unchanged=5), RowCounts(changed=2, unchanged=3))
    after = ("99.43", "100", "99.43")
    days = [
        DayCompared(day=day, how="compared", rows=rows, sums={"revenue_eur": _sums(amount)})
        for day, rows, amount in zip(DAYS, changed, after, strict=True)
    ]
    groups = tuple(
        GroupCompared(value=value, rows=RowCounts(changed=count, unchanged=1), sums={"revenue_eur": _sums("99.43")})
        for value, count in (("MEAT", 3), ("DELI\x1b[31m", 2), (None, 0))
    )
    cells = (Cell(column="rate", before="1.20", after="1.25"), Cell(column="rate_day", before=None, after=str(FIRST)))
    return TableCompared(
        table=REVENUE,
        measures=("revenue_eur",),
        days=tuple(days),
        groups=(GroupsCompared(column="department", groups=3, differing=2, most=groups),),
        sample=(ChangedRow(day=FIRST, key={"store_id": "367"}, cells=cells, withheld=("household_token",)),),
    )


def _sums(after: str) -> Sums:
    return Sums(before=Decimal(100), after=Decimal(after))


@contextmanager
def golden_home() -> Iterator[Path]:
    """The lakehouse, and an environment in which nothing of this machine shows."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BACKFILL_", "SPARK_REMOTE"))}
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        home = Path(folder) / "home"
        build(home)
        settings = {"BACKFILL_HOME": str(home), "BACKFILL_ROLLBACK_WINDOW_DAYS": "100000"}
        with mock.patch.dict(os.environ, {**kept, **settings}, clear=True), without_spark():
            yield home


def kept_pages() -> list[str]:
    return [name for name in CASES if name == "help" or name in command_names()]


def page(command: str, home: Path) -> str:
    """All that is kept of a command, in sections. It has a copy of the lakehouse, and may change it."""
    own = home.parent / command
    shutil.copytree(home, own)
    with mock.patch.dict(os.environ, {"BACKFILL_HOME": str(own)}):
        return stable(_sections(command), own)


def _sections(command: str) -> str:
    asked = "--help" if command == "help" else f"{command} --help"
    parts = [_section(f"backfill {asked}", _on_screen(asked.split()))]
    for words in map(shlex.split, CASES[command]):
        line = " ".join(("backfill", *words))
        parts.append(_section(line, _on_screen(words)))
        parts.append(_section(f"{line} | cat", _run(words)))
        parts.append(_section(f"{line} --json", _run([*words, "--json"]), json=True))
    return "\n".join(parts)


def stable(text: str, home: Path) -> str:
    """``text`` without what differs from run to run; colours are visible."""
    found = text.replace(str(home), "<home>")
    for pattern, instead in _UNSTABLE:
        found = pattern.sub(instead, found)
    return found.replace("\x1b", "\\e")


def _section(title: str, done: Result, *, json: bool = False) -> str:
    """Both streams; of JSON what a program reads, unless that is nothing."""
    output = done.stdout if json and done.stdout else done.output
    lines = "\n".join(line.rstrip() for line in STYLE.sub("", output).splitlines())
    return f"=== {title}  [{done.exit_code}]\n{lines}\n"


def _on_screen(words: Sequence[str]) -> Result:
    """To what is asked, the answer is no."""
    with terminal(WIDTH):
        return _run(words, input="n\n", terminal_width=WIDTH - 2)


def _run(words: Sequence[str], **settings: Any) -> Result:
    done = CliRunner().invoke(main, list(words), **settings)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def renew() -> None:
    FOLDER.mkdir(exist_ok=True)
    with golden_home() as home:
        for command in kept_pages():
            (FOLDER / f"{command}.txt").write_text(page(command, home))
    print(f"Written: {len(kept_pages())} pages in {FOLDER}")


if __name__ == "__main__":
    renew()
