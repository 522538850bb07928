"""``backfill sample``: puts real or synthetic data into the landing zone, as source systems would."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from datetime import date, timedelta
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

import click

from backfill_assets.cli.output import say_answer
from backfill_assets.days import DayRange
from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.examples import datasets
from backfill_assets.examples import sample as samples
from backfill_assets.examples.commands.sample_live import DEFAULT_EVENTS, MOST_EVENTS, land_live
from backfill_assets.examples.sample.landing_writer import LandedCounts
from backfill_assets.report.answer import Answer, Grid
from backfill_assets.settings import Settings

FIRST_SYNTHETIC_DAY = date(2017, 3, 1)

_EPILOG = """
\b
Examples:
  backfill sample                                  all real lines of 2017
  backfill sample --days 2017-03-01..2017-05-29    90 real days
  backfill sample --synthetic --days 7 --rows-per-day 1000 --seed 42
  backfill sample --synthetic --days 3 --defects late_row=5,broken_line=1
  backfill sample --dataset sea_temperatures --days 2016-02-15..2016-05-14
  backfill sample --live --events-per-second 20 --seconds 60
"""


def _modules(package: ModuleType) -> set[str]:
    return {module.name for module in iter_modules(package.__path__)}


DATASETS = ("sales", *sorted(_modules(datasets) & _modules(samples)))
"""Sales, and each dataset that has a module of its name in ``sample/``, with its ``ALL_DAYS`` and what can ``land``."""


@click.command(epilog=_EPILOG, short_help="Put real or synthetic data into the landing zone.")
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
@click.option("--json", "as_json", is_flag=True, help="Print what was landed as JSON.")
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
    as_json: bool,
) -> None:
    """Put sample data into the landing zone: sales with the product catalogue and the ECB's reference rates.

    The whole catalogue is landed on the first day and on the first of each month. Rates are landed from ten days before
    the first day, so that each day has a rate.

    Beside other months, the days of the catalogue that reports look back to are landed too, without rows.

    A file that has landed with the same content is left alone. If one has other content, nothing is written.

    With --live, sales of today are landed second by second, some of them late, corrected, sent twice or unreadable.
    Rates and products of the days that they are of are landed at the start, where none have landed.
    """
    try:
        root = landing or Settings.from_environment().landing
        if live:
            _refuse(days_text, rows_per_day, defects, synthetic or None, message="--live lands sales of today.")
            _refuse(None if dataset == "sales" else dataset, message="--live lands sales.")
            land_live(root, events_per_second or DEFAULT_EVENTS, seconds, _seed(seed), as_json=as_json)
            return
        _refuse(events_per_second, seconds, message="--events-per-second and --seconds shape live data.", add="--live")
        if synthetic and dataset != "sales":
            raise InvalidRequest("Only sales can be made up.", hint=f"Leave out --synthetic for the real {dataset}.")
        if synthetic:
            _land_synthetic(days_text or "7", root, rows_per_day, seed, defects, as_json)
        else:
            message = "--rows-per-day, --seed and --defects shape synthetic data."
            _refuse(rows_per_day, seed, defects, message=message, add="--synthetic")
            _land_real(dataset, days_text, root, as_json)
    except BackfillError as error:
        raise click.ClickException(str(error)) from error


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


def _land_synthetic(
    days: str, landing: Path, rows_per_day: int | None, seed: int | None, defects: str | None, as_json: bool
) -> None:
    from backfill_assets.examples.sample.synthetic import synthesize
    from backfill_assets.examples.sample.synthetic_tally import SyntheticSpec

    a_day = 1000 if rows_per_day is None else rows_per_day
    chosen_seed = _seed(seed)
    tally = synthesize(SyntheticSpec(_synthetic_days(days), a_day, chosen_seed, parse_defects(defects)), landing)
    if as_json:
        click.echo(json.dumps(tally.as_json(), indent=2))
        return
    from backfill_assets.examples.sample.defects import DEFECTS

    title = f"seed {chosen_seed}, {a_day:,} transactions a day"
    rows = [(name, DEFECTS[name].description, count) for name, count in tally.defects.items()]
    rows += [(f"lines {name}", "", count) for name, count in tally.totals().items()]
    say_answer(Answer(parts=(Grid("defects", ("defect", "what it is", "rows"), rows, title=title),)))
    _say_landed(landing, tally.spec.days, tally.landed)


def _land_real(dataset: str, days: str | None, landing: Path, as_json: bool) -> None:
    all_days, land = _real(dataset)
    wanted = DayRange.parse(days) if days else all_days
    landed = land(wanted, landing)
    if as_json:
        counts = {"files_written": landed.written, "files_already_there": landed.already_there}
        click.echo(json.dumps({"days": str(wanted), "lines": landed.lines} | counts, indent=2))
        return
    say_answer(Answer(parts=(Grid("sources", ("source", "lines"), list(landed.lines.items())),)))
    _say_landed(landing, wanted, landed)


def _real(dataset: str) -> tuple[DayRange, Callable[[DayRange, Path], LandedCounts]]:
    """All days that there are real data of, and what lands some of them."""
    if dataset == "sales":
        from backfill_assets.examples.sample.real import ALL_DAYS, land_real

        return ALL_DAYS, land_real
    module = import_module(f"{samples.__name__}.{dataset}")
    return module.ALL_DAYS, module.land


def _synthetic_days(text: str) -> DayRange:
    if not text.isdecimal():
        return DayRange.parse(text)
    if not 1 <= int(text) <= 3650:
        raise InvalidRequest(f"--days {text} is not between 1 and 3650 days.")
    return DayRange(FIRST_SYNTHETIC_DAY, FIRST_SYNTHETIC_DAY + timedelta(days=int(text) - 1))


def _seed(seed: int | None) -> int:
    return secrets.randbelow(2**31) if seed is None else seed


def _refuse(*options: object, message: str, add: str = "") -> None:
    """Raise ``message`` if any of ``options`` was given; ``add`` is the option that they need."""
    if any(option is not None for option in options):
        raise InvalidRequest(message, hint=f"Add {add}." if add else "Leave out the options for days and other data.")


def _say_landed(landing: Path, days: DayRange, landed: LandedCounts) -> None:
    click.echo(f"{days} in {landing}: {landed.written} files written, {landed.already_there} already there.")
