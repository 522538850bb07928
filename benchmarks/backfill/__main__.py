"""``python -m benchmarks.backfill [SCENARIO ...]``: measure, and say what is reached and what is not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import click

from benchmarks.backfill import growth, rebuild, shared_server, throughput, wide_data, without_spark
from benchmarks.backfill.data import CACHE, Data, generated, skewed
from benchmarks.backfill.machine import load, this_machine
from benchmarks.backfill.report import Line, say, write
from benchmarks.stream import sustained


@dataclass(frozen=True)
class Size:
    """How much a scenario works on, where the option does not say."""

    days: int
    rows: int
    rounds: int

    def covers(self, other: Size) -> bool:
        """Whether it is no smaller than ``other``; fewer rounds are as large."""
        return self.days >= other.days and self.rows >= other.rows


@dataclass(frozen=True)
class Scenario:
    """``full`` and ``quick`` are its sizes in ``make bench`` and ``make bench-quick``; without one it is left out.

    Goals are set for ``full``: a smaller run has none.
    """

    measure: Callable[[Data, int], list[Line]]
    full: Size
    quick: Size | None
    data: Callable[[int, int], Data] = Data.of
    """Days and rows of a day to what it works on. By itself it has no rows, or makes them."""


SCENARIOS = {
    "rebuild": Scenario(rebuild.rebuild, Size(90, 50_000, 3), Size(6, 2_000, 1), generated),
    "landed": Scenario(rebuild.landed, Size(90, 50_000, 3), Size(6, 2_000, 1), generated),
    "skewed": Scenario(rebuild.skewed, Size(90, 50_000, 3), Size(6, 2_000, 1), skewed),
    "wide": Scenario(rebuild.many_columns, Size(20, 50_000, 3), Size(6, 2_000, 1), wide_data.generated),
    "with-checks": Scenario(rebuild.with_checks, Size(90, 50_000, 3), Size(6, 2_000, 1), generated),
    "more-rows": Scenario(rebuild.more_rows, Size(20, 200_000, 3), None, generated),
    "shared": Scenario(shared_server.rebuild_on_server, Size(90, 50_000, 3), None, generated),
    "one-day": Scenario(shared_server.one_day, Size(90, 50_000, 3), Size(6, 2_000, 1), generated),
    "concurrent": Scenario(shared_server.concurrent, Size(90, 50_000, 3), None, generated),
    "growth": Scenario(growth.growth, Size(90, 5_000, 3), None, generated),
    "throughput": Scenario(throughput.throughput, Size(900, 5_000, 1), None, generated),
    "unchanged": Scenario(without_spark.unchanged, Size(90, 50_000, 5), Size(6, 2_000, 3), generated),
    "publishing": Scenario(without_spark.publishing, Size(90, 0, 7), Size(90, 0, 3)),
    "status": Scenario(without_spark.status, Size(3650, 0, 5), Size(3650, 0, 1)),
    "memory": Scenario(without_spark.memory, Size(360, 0, 3), Size(360, 0, 1)),
    "dagster": Scenario(without_spark.dagster_share, Size(90, 0, 3), Size(90, 0, 1)),
    "stream": Scenario(sustained.sustained, Size(1, 300_000, 3), Size(1, 60_000, 1)),
}

BY_NAME = ("skewed", "wide")
"""Have a quick size too, and would make a quick run of all of them too long."""


@click.command(epilog="Scenarios: " + ", ".join(SCENARIOS))
@click.argument("names", nargs=-1, metavar="[SCENARIO]...", type=click.Choice(list(SCENARIOS)))
@click.option("--quick", is_flag=True, help="Small sizes and fewer scenarios: under ten minutes.")
@click.option("--days", type=click.IntRange(min=4), help="Days instead of the scenario's own.")
@click.option("--rows", type=click.IntRange(min=1), help="Rows a day instead of the scenario's own.")
@click.option("--rounds", type=click.IntRange(min=1), help="Rounds instead of the scenario's own.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="[default: .cache/bench/*.json]")
def main(
    names: tuple[str, ...], quick: bool, days: int | None, rows: int | None, rounds: int | None, file: Path | None
) -> None:
    """Measure a backfill beside its goals and beside other ways to do it."""
    click.echo(f"{this_machine()}; load {load()}", err=True)
    measured: list[Line] = []
    for name in names or tuple(SCENARIOS):
        size = SCENARIOS[name].quick if quick else SCENARIOS[name].full
        if not names and (size is None or (quick and name in BY_NAME)):
            continue
        measured += _measure(name, _chosen(size or SCENARIOS[name].full, days, rows, rounds))
    say(measured)
    target = file or CACHE / ("bench-quick.json" if quick else "bench.json")
    write(target, "quick" if quick else "full", measured)
    click.echo(f"Written to {target}.", err=True)


def _chosen(size: Size, days: int | None, rows: int | None, rounds: int | None) -> Size:
    return Size(days or size.days, rows or size.rows, rounds or size.rounds)


def _measure(name: str, size: Size) -> list[Line]:
    click.echo(f"{name}: {size.days} days, {size.rows:,} rows a day, {size.rounds} round(s)", err=True)
    scenario = SCENARIOS[name]
    try:
        lines = scenario.measure(scenario.data(size.days, size.rows), size.rounds)
    except (RuntimeError, ValueError) as error:
        print(error, file=sys.stderr)
        return [Line(f"{name}: failed", 0, "", note=str(error).splitlines()[0])]
    return lines if size.covers(scenario.full) else [replace(line, goal=None) for line in lines]


if __name__ == "__main__":
    main()
