from __future__ import annotations

import click

from backfill_assets.cli.foreground import foreground_lake, report_progress, run_info
from backfill_assets.cli.options import as_json, dry_run, table
from backfill_assets.cli.output import go_on, say_done
from backfill_assets.cli.wiring import current_catalog, current_settings


@click.command()
@table
@click.argument("location", default="")
@dry_run
@click.option("--release", is_flag=True, help="Give TABLE back, as it is now: at LOCATION, or where it lies.")
@as_json
def adopt(table: str, location: str, dry_run: bool, release: bool) -> None:
    """Take over a Delta table with its history: its days become those of TABLE, and no row is copied.

    \b
    Examples:
      backfill adopt fact_orders /data/orders --dry-run    measures, judges, and says what stands in the way
      backfill adopt fact_orders /data/orders              moves the folder into the lakehouse, and publishes its days
      backfill adopt fact_orders                           the table lies in the lakehouse already
      backfill adopt --release fact_orders /data/orders    gives it back, with what it holds now

    TABLE is declared, with a contract that fits, and nothing of it is published yet. LOCATION is partitioned by day.
    Its log goes on: readers find their table under its new path. Every day is measured and judged; what breaks a gate
    is listed, marked and taken over as it is. Adopted days are fresh: no repair touches them, and a run only with
    --force. A plan over some of them rebuilds these, and a rollback puts the adopted files back.

    Refused, with the command that removes it: what delta-rs cannot write, columns that do not fit, and commits of
    others within 24 hours. BACKFILL_WRITERS=stopped says that you have stopped all who wrote to it, and their VACUUM.

    --release leaves an ordinary Delta table. Nothing is published to it then, until it is adopted again.
    """
    if release:
        _give_back(table, location, dry_run=dry_run)
    else:
        _adopt(table, location, dry_run=dry_run)


def _adopt(table: str, location: str, *, dry_run: bool) -> None:
    from backfill_assets.answers.adoption import adopted_answer, adoption_answer
    from backfill_assets.rebuild.adopt import Adoption

    with foreground_lake() as lake:
        step = current_catalog().step(table)
        run = run_info("backfill adopt")
        stopped = current_settings().writers_stopped
        adoption = Adoption(lake, step, location, run, report_progress, writers_stopped=stopped)
        plan = adoption.plan()
        answer = adoption_answer(plan)
        if not go_on(answer, dry_run=dry_run):
            return
        done = adoption.carry_out(plan)
    say_done(answer, adopted_answer(plan, done))


def _give_back(table: str, location: str, *, dry_run: bool) -> None:
    from backfill_assets.answers.adoption import given_back_answer, release_answer
    from backfill_assets.rebuild.give_back import GivingBack

    with foreground_lake() as lake:
        giving = GivingBack(lake, table, location, run_info("backfill adopt --release"))
        plan = giving.plan()
        answer = release_answer(plan)
        if not go_on(answer, dry_run=dry_run):
            return
        done = giving.carry_out(plan)
    say_done(answer, given_back_answer(plan, done))
