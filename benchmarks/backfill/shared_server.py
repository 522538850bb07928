"""What a Spark server that all runs share is good for: one day, alone or beside a long run; several runs at once."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial

from backfill_assets.days import DayRange
from backfill_assets.examples.sample.synthetic import SyntheticSpec, synthesize
from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import connect_server
from benchmarks.backfill import peers
from benchmarks.backfill.contest import contest
from benchmarks.backfill.data import SEED, TABLES, Data, copied
from benchmarks.backfill.rebuild import BY_HAND, OURS, SQLMESH, by_hand, ours
from benchmarks.backfill.report import Goal, Line, figure, ratios, seconds
from benchmarks.backfill.timed import Timed
from benchmarks.backfill.totals import delta_tables, of_tables

Environment = dict[str, str]
WARM_UPS = 4
"""Days that a server has computed before it counts as warm: Java compiles most of what it runs in the first ones."""


@contextmanager
def server() -> Iterator[Environment]:
    """A fresh server; what a process needs in its environment to use it."""
    with connect_server(replace(Settings.from_environment(), spark_profile="connect")) as running:
        yield {"SPARK_REMOTE": running.url}


def rebuild_on_server(data: Data, rounds: int) -> list[Line]:
    """The contest on a server that has done the same once before; SQLMesh starts a Spark of its own."""
    with server() as shared:
        found = contest([ours(data, shared), by_hand(data, shared), peers.sqlmesh(data)], data.days, rounds)
    runs = found.runs
    lines = [seconds(f"{name}: {data.range} from raw, shared server", timed) for name, timed in runs.items()]
    lines += ratios("staged, judged, published / hand-written, shared server", runs[OURS], runs[BY_HAND], Goal(1.15))[
        :1
    ]
    if SQLMESH in runs:
        lines += ratios("this project on the shared server / SQLMesh", runs[OURS], runs[SQLMESH], Goal(0.6))[:1]
    return lines


def one_day(data: Data, rounds: int) -> list[Line]:
    """A newly landed day through raw to daily revenue: on the warm server, embedded, and beside a run of all days."""
    work = copied(data, "one-day")
    days = _land_further(work, 3 * rounds + WARM_UPS)
    chain = partial(_through_the_chain, work)
    with server() as shared:
        first = [chain(next(days), shared) for _ in range(WARM_UPS)][:1]
        warm = [chain(next(days), shared) for _ in range(rounds)]
        with ThreadPoolExecutor(1) as pool:
            long = pool.submit(
                lambda: work.run(*TABLES, "--days", work.range, "--force", name="long", environment=shared)
            )
            runs = [(chain(next(days), shared), not long.done()) for _ in range(rounds)]
            long.result()
    embedded = [chain(next(days), {}) for _ in range(rounds)]
    shutil.rmtree(work.home)
    return [
        seconds("one day, raw to daily revenue, warm shared server", warm, Goal(5), note=steps_of(warm[-1])),
        seconds("the same, the first that this server did", first),
        seconds("the same, embedded", embedded),
        beside(f"the same, beside a run of {len(data.days)} days on that server", runs),
    ]


def beside(what: str, runs: list[tuple[Timed, bool]]) -> Line:
    """Only runs to whose end the long one lasted stand for the goal; without any, nothing is reached or missed."""
    shared = [run for run, lasted in runs if lasted]
    if not shared:
        return seconds(what, [run for run, _ in runs], note="the long run ended before any of them did")
    note = "" if len(shared) == len(runs) else f"{len(runs) - len(shared)} more ended after the long run"
    return seconds(what, shared, Goal(20), note=note)


def concurrent(data: Data, rounds: int) -> list[Line]:
    """The range on the warm shared server: in one run, and in four, one after the other and at once."""
    quarter = -(-len(data.days) // 4)
    parts = data.days.split(quarter)
    together, apart, whole = [], [], []
    with server() as shared:
        once = partial(data.run, *TABLES, "--days", data.range, "--force", name="concurrent-whole", environment=shared)
        once()  # warms the server: what comes first is not to be slower for that
        runs: list[Callable[[], Timed]] = [partial(_part, data, part, n, shared) for n, part in enumerate(parts)]
        right = of_tables(delta_tables(data.lakehouse), data.days)
        for _ in range(rounds):
            whole.append(_wall([once()]))
            apart.append(_wall([run() for run in runs]))
            together.append(_at_once(runs))
            found = of_tables(delta_tables(data.lakehouse), data.days)
            if found != right:
                raise ValueError(f"Runs at once computed {found}, one run {right}.")
    ratio = [round(a / b, 3) for a, b in zip(together, apart, strict=True)]
    return [
        figure(f"{len(parts)} runs at once", together, "s"),
        figure(f"{len(parts)} runs one after the other", apart, "s"),
        figure("the whole range in one run", whole, "s"),
        figure(f"{len(parts)} runs at once / one after the other", ratio, "ratio", Goal(0.8)),
    ]


def _part(data: Data, part: DayRange, number: int, shared: Environment) -> Timed:
    return data.run(*TABLES, "--days", str(part), "--force", name=f"concurrent-{number}", environment=shared)


def _wall(runs: list[Timed]) -> float:
    return round(sum(run.seconds for run in runs), 2)


def _at_once(runs: list[Callable[[], Timed]]) -> float:
    with ThreadPoolExecutor(len(runs)) as pool:
        return max(each.result().seconds for each in [pool.submit(run) for run in runs])


def _land_further(data: Data, count: int) -> Iterator[DayRange]:
    """Days after those of ``data``, landed, with their rates built."""
    after = DayRange(data.days.last + timedelta(days=1), data.days.last + timedelta(days=count))
    synthesize(SyntheticSpec(after, data.rows_per_day, SEED, {}), data.landing)
    data.run("raw_fx_rates", "bronze_fx_rates", "--days", str(after), name="further-rates")
    print(f"  landed {after}", file=sys.stderr, flush=True)
    return iter(after.split(1))


def _through_the_chain(data: Data, day: DayRange, environment: Environment) -> Timed:
    return data.run("raw_sales", *TABLES, "--days", str(day), name="one-day", environment=environment)


def steps_of(run: Timed) -> str:
    return ", ".join(f"{step['table']} {step['seconds']}" for step in json.loads(run.output)["steps"])
