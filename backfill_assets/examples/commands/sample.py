"""``backfill sample``: puts real, synthetic or live data into the landing zone, as source systems would."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import click

from backfill_assets.cli.options import as_json
from backfill_assets.cli.output import console, say_answer
from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.sample.landing_writer import LandedCounts
from backfill_assets.report.answer import Answer, Datum, Fact, Grid
from backfill_assets.settings import Settings
from backfill_assets.text import format_count

FIRST_SYNTHETIC_DAY = date(2017, 3, 1)
DEFAULT_ROWS = 1000
DEFAULT_EVENTS = 10.0
"""A second."""
MOST_EVENTS = 20_000
DATASETS = ("sales", "sea_temperatures")

REAL, SYNTHETIC, LIVE = "real data", "--synthetic", "--live"
_TAKEN_BY_ALL = frozenset({"--landing", "--json"})
_TAKEN_BY: Mapping[str, frozenset[str]] = {
    REAL: frozenset({"--days", "--dataset"}),
    SYNTHETIC: frozenset({"--synthetic", "--days", "--rows-per-day", "--seed", "--defects"}),
    LIVE: frozenset({"--live", "--seed", "--events-per-second", "--seconds"}),
}
"""The options of each kind of data."""


@click.command(short_help="Put real or synthetic data into the landing zone.")
@click.option(
    "--days", "days_text", metavar="A..B|N", help="Days to land; with --synthetic also N, for N days from 2017-03-01."
)
@click.option(
    "--landing",
    type=click.Path(file_okay=False, path_type=Path),
    help="The landing zone.  [default: BACKFILL_LANDING, or .data/landing]",
)
@click.option(
    "--dataset",
    type=click.Choice(DATASETS),
    default="sales",
    show_default=True,
    help="What to land; sales come with their products and exchange rates.",
)
@click.option(
    "--synthetic", is_flag=True, help="Generated lines with many currencies and named defects instead of the real ones."
)
@click.option("--rows-per-day", type=click.IntRange(min=0), help="Synthetic: transactions a day.  [default: 1000]")
@click.option(
    "--seed", type=click.IntRange(min=0), help="Synthetic, live: the same seed gives the same lines.  [default: random]"
)
@click.option("--defects", metavar="NAME=COUNT,...", help="Synthetic: exact counts, or 'none'.  [default: a mix]")
@click.option("--live", is_flag=True, help="Sales of this moment, a file a second, until Ctrl-C.")
@click.option(
    "--events-per-second", type=click.FloatRange(0, MOST_EVENTS, min_open=True), help="Live: the rate.  [default: 10]"
)
@click.option("--seconds", type=click.FloatRange(0, min_open=True), help="Live: for how long.  [default: until Ctrl-C]")
@as_json
def sample(
    days_text: str | None,
    landing: Path | None,
    dataset: str,
    synthetic: bool,
    rows_per_day: int | None,
    seed: int | None,
    defects: str | None,
    live: bool,
    events_per_second: float | None,
    seconds: float | None,
) -> None:
    """Put sample data into the landing zone: sales with the product catalogue and the ECB's reference rates.

    \b
    Examples:
      backfill sample                                  all real lines of 2017
      backfill sample --days 2017-03-01..2017-05-29    90 real days
      backfill sample --synthetic --days 7 --rows-per-day 1000 --seed 42
      backfill sample --synthetic --days 3 --defects late_row=5,broken_line=1
      backfill sample --dataset sea_temperatures --days 2016-02-15..2016-05-14
      backfill sample --live --events-per-second 20 --seconds 60

    The whole catalogue is landed on the first day and on the first of each month. Rates are landed from ten days before
    the first day, so that each day has a rate.

    Beside other months, the days of the catalogue that reports look back to are landed too, without rows.

    A file that has landed with the same content is left alone. If one has other content, nothing is written.

    With --live, sales of today are landed second by second, some of them late, corrected, sent twice or unreadable.
    Rates and products of the days that they are of are landed at the start, where none have landed.
    """
    root = landing or Settings.from_environment().landing
    kind = LIVE if live else SYNTHETIC if synthetic else REAL
    _refuse_others(kind)
    if kind == REAL:
        answer = _land_real(dataset, days_text, root)
    else:
        chosen = secrets.randbelow(2**31) if seed is None else seed
        if live:
            answer = _land_live(root, events_per_second or DEFAULT_EVENTS, seconds, chosen)
        else:
            a_day = DEFAULT_ROWS if rows_per_day is None else rows_per_day
            answer = _land_synthetic(synthetic_days(days_text or "7"), root, a_day, chosen, parse_defects(defects))
    say_answer(answer)


def _refuse_others(kind: str) -> None:
    """Raise :class:`InvalidRequest` if an option was given that is for another kind of data."""
    context = click.get_current_context()
    for param in context.command.params:
        option, given = param.opts[0], context.params.get(param.name or "")
        is_given = given is not None and given is not False and given != param.default
        if is_given and option not in _TAKEN_BY_ALL | _TAKEN_BY[kind]:
            kinds = " or ".join(each for each in (SYNTHETIC, LIVE) if option in _TAKEN_BY[each])
            hint = f"Add {kinds}." if kind == REAL else f"Leave out {option} or {kind}."
            raise InvalidRequest(f"{option} does not go with {kind}.", hint=hint)


def parse_defects(text: str | None) -> dict[str, int] | None:
    """``late_row=5,broken_line=1`` as counts; ``none`` is no defects, nothing at all leaves the choice to the rates."""
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


def _land_real(dataset: str, days: str | None, root: Path) -> Answer:
    from backfill_assets.examples.sample import real

    all_days, land = {
        "sales": (real.SALES_DAYS, real.land_real),
        "sea_temperatures": (real.READING_DAYS, real.land_readings),
    }[dataset]
    wanted = DayRange.parse(days) if days else all_days
    landed = land(wanted, root)
    return Answer(parts=(*_files(wanted, root, landed), Fact("lines", landed.lines)))


def _land_synthetic(
    days: DayRange, root: Path, rows_per_day: int, seed: int, defects: Mapping[str, int] | None
) -> Answer:
    from backfill_assets.examples.sample.defects import DEFECTS
    from backfill_assets.examples.sample.synthetic import SyntheticSpec, synthesize

    made = synthesize(SyntheticSpec(days, rows_per_day, seed, defects), root)
    lines = {"received": sum(made.fates.values())} | {str(fate): count for fate, count in made.fates.items()}
    rows = [(name, DEFECTS[name].description, count) for name, count in made.defects.items()]
    return Answer(
        parts=(
            *(Fact("seed", Datum(seed)), Fact("rows per day", rows_per_day)),
            *_files(days, root, made.landed),
            Fact("lines", lines),
            Grid("defects", ("defect", "what it is", "rows"), rows),
        )
    )


def _files(days: DayRange, root: Path, landed: LandedCounts) -> list[Fact]:
    counts = {"files written": landed.written, "files already there": landed.already_there}
    return [Fact(name, value) for name, value in {"days": str(days), "landing zone": str(root), **counts}.items()]


def _land_live(root: Path, events_per_second: float, seconds: float | None, seed: int) -> Answer:
    """Land live sales for ``seconds`` or until Ctrl-C: how many of which kind there were."""
    from backfill_assets.examples.sample.live import KINDS, LiveLanding, LiveSpec

    live = LiveLanding(LiveSpec(seed, datetime.now(UTC), events_per_second), root)
    line = f"Live sales in {root}, {events_per_second:g} a second; Ctrl-C ends it."
    with suppress(KeyboardInterrupt), console(stderr=True).status(line) as status:
        live.land_for(seconds, lambda now: status.update(f"{line} {format_count(now.lines, 'event')}"))
    facts = {
        "seed": Datum(seed),
        "start": live.spec.start,
        "events per second": events_per_second,
        "late days": live.spec.late_days,
        "landing zone": str(root),
        "events": live.lines,
        "files": live.files,
    }
    rows = [(kind, description, live.by_kind[kind]) for kind, description in KINDS.items()]
    kinds = Grid("kinds", ("kind", "what it is", "lines"), rows)
    return Answer(parts=(*(Fact(name, value) for name, value in facts.items()), kinds))
