from __future__ import annotations

from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path

import click

from backfill_assets import clock
from backfill_assets.cli.options import as_json
from backfill_assets.cli.output import console, say_answer
from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.sample.landing_writer import LandedCounts
from backfill_assets.report.answer import Answer, Datum, Fact, Grid
from backfill_assets.settings import Settings
from backfill_assets.text import format_count

FIRST_SYNTHETIC_DAY = date(2017, 3, 1)
MOST_EVENTS = 20_000
"""A second."""
DATASETS = ("sales", "sea_temperatures")

_into = click.option(
    "--landing",
    type=click.Path(file_okay=False, path_type=Path),
    default=lambda: Settings.from_environment().landing,
    help="The landing zone.  [default: BACKFILL_LANDING, or .data/landing]",
)
_from_seed = click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=lambda: int(clock.between(0, 2**31)),
    help="The same seed gives the same lines.  [default: random]",
)


@click.group(short_help="Put real or synthetic data into the landing zone.")
def sample() -> None:
    """Put sample data into the landing zone: sales with the product catalogue and the ECB's reference rates.

    \b
    Examples:
      backfill sample real                                  all real lines of 2017
      backfill sample real --days 2017-03-01..2017-05-29    90 real days
      backfill sample real --dataset sea_temperatures --days 2016-02-15..2016-05-14
      backfill sample synthetic --days 7 --rows-per-day 1000 --seed 42
      backfill sample synthetic --days 3 --defects late_row=5,broken_line=1
      backfill sample live --events-per-second 20 --seconds 60

    The whole catalogue is landed on the first day and on the first of each month. Rates are landed from ten days before
    the first day, so that each day has a rate.

    Beside other months, the days of the catalogue that reports look back to are landed too, without rows.

    A file that has landed with the same content is left alone. If one has other content, nothing is written.
    """


@sample.command()
@click.option("--days", metavar="A..B", help="Days to land.  [default: all that there are]")
@click.option(
    "--dataset",
    type=click.Choice(DATASETS),
    default="sales",
    show_default=True,
    help="What to land; sales come with their products and exchange rates.",
)
@_into
@as_json
def real(days: str | None, dataset: str, landing: Path) -> None:
    """Land real lines, as packages carry them."""
    from backfill_assets.examples.sample import real

    all_days, land = {
        "sales": (real.SALES_DAYS, real.land_real),
        "sea_temperatures": (real.READING_DAYS, real.land_readings),
    }[dataset]
    wanted = DayRange.parse(days) if days else all_days
    landed = land(wanted, landing)
    say_answer(Answer(parts=(*_files(wanted, landing, landed), Fact("lines", landed.lines))))


@sample.command()
@click.option(
    "--days", metavar="A..B|N", default="7", show_default=True, help="Days to land; N is N days from 2017-03-01."
)
@click.option("--rows-per-day", type=click.IntRange(min=0), default=1000, show_default=True, help="Transactions a day.")
@_from_seed
@click.option("--defects", metavar="NAME=COUNT,...", help="Exact counts, or 'none'.  [default: a mix]")
@_into
@as_json
def synthetic(days: str, rows_per_day: int, seed: int, defects: str | None, landing: Path) -> None:
    """Land generated lines with many currencies and named defects."""
    from backfill_assets.examples.sample.defects import DEFECTS
    from backfill_assets.examples.sample.synthetic import SyntheticSpec, synthesize

    wanted = synthetic_days(days)
    made = synthesize(SyntheticSpec(wanted, rows_per_day, seed, parse_defects(defects)), landing)
    lines = {"received": sum(made.fates.values())} | {str(fate): count for fate, count in made.fates.items()}
    rows = [(name, DEFECTS[name].description, count) for name, count in made.defects.items()]
    say_answer(
        Answer(
            parts=(
                *(Fact("seed", Datum(seed)), Fact("rows per day", rows_per_day)),
                *_files(wanted, landing, made.landed),
                Fact("lines", lines),
                Grid("defects", ("defect", "what it is", "rows"), rows),
            )
        )
    )


@sample.command()
@click.option(
    "--events-per-second",
    type=click.FloatRange(0, MOST_EVENTS, min_open=True),
    default=10.0,
    show_default=True,
    help="The rate.",
)
@click.option("--seconds", type=click.FloatRange(0, min_open=True), help="For how long.  [default: until Ctrl-C]")
@_from_seed
@_into
@as_json
def live(events_per_second: float, seconds: float | None, seed: int, landing: Path) -> None:
    """Land sales of this moment, a file a second, until Ctrl-C.

    Some of them are late, corrected, sent twice or unreadable. Rates and products of the days that they are of are
    landed at the start, where none have landed.
    """
    from backfill_assets.examples.sample.live import KINDS, LiveLanding, LiveSpec

    landed = LiveLanding(LiveSpec(seed, clock.now(), events_per_second), landing)
    line = f"Live sales in {landing}, {events_per_second:g} a second; Ctrl-C ends it."
    with suppress(KeyboardInterrupt), console(stderr=True).status(line) as status:
        landed.land_for(seconds, lambda now: status.update(f"{line} {format_count(now.lines, 'event')}"))
    facts = {
        "seed": Datum(seed),
        "start": landed.spec.start,
        "events per second": events_per_second,
        "late days": landed.spec.late_days,
        "landing zone": str(landing),
        "events": landed.lines,
        "files": landed.files,
    }
    rows = [(kind, description, landed.by_kind[kind]) for kind, description in KINDS.items()]
    kinds = Grid("kinds", ("kind", "what it is", "lines"), rows)
    say_answer(Answer(parts=(*(Fact(name, value) for name, value in facts.items()), kinds)))


def parse_defects(text: str | None) -> dict[str, int] | None:
    """Returns None for each defect's own rate; ``none`` is no defects."""
    if text is None:
        return None
    counts: dict[str, int] = {}
    for part in () if text == "none" else text.split(","):
        name, _, count = part.strip().partition("=")
        if not count.isdecimal() or name in counts:
            raise InvalidRequest(
                f"{part!r} is not one defect and its count.", hint="--defects late_row=5,broken_line=1"
            )
        counts[name] = int(count)
    return counts


def synthetic_days(text: str) -> DayRange:
    if not text.isdecimal():
        return DayRange.parse(text)
    if not 1 <= int(text) <= 3650:
        raise InvalidRequest(f"--days {text} is not between 1 and 3650 days.")
    return DayRange(FIRST_SYNTHETIC_DAY, FIRST_SYNTHETIC_DAY + timedelta(days=int(text) - 1))


def _files(days: DayRange, root: Path, landed: LandedCounts) -> list[Fact]:
    counts = {"files written": landed.written, "files already there": landed.already_there}
    return [Fact(name, value) for name, value in {"days": str(days), "landing zone": str(root), **counts}.items()]
