from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import click

from backfill_assets.cli.foreground import foreground_builder, report_progress, run_info
from backfill_assets.cli.options import DAY, DAYS, MOMENT, TABLE, as_json, dry_run, personal_value, table, yes
from backfill_assets.cli.output import awaited, go_on, say_answer, say_done
from backfill_assets.cli.wiring import current_catalog, current_settings, open_storage
from backfill_assets.days import DayRange


@click.group()
def raw() -> None:
    """Look at what came in: rejected rows, corrected files, positions in topics.

    \b
    Examples:
      backfill raw quarantine
      backfill raw refresh raw_sales 2017-03-04 --dry-run
      backfill raw restore raw_sales 2017-03-04 --dry-run
      backfill raw release bronze_sales 2026-03-02 "a till sent broken lines"
      backfill raw erase @ --reason "request 4711"
      backfill raw positions raw_sales
    """


@raw.command()
@table
@click.argument("days", type=DAYS, metavar="A..B")
@dry_run
@as_json
def refresh(table: str, days: DayRange, dry_run: bool) -> None:
    """Read the landed files of the raw TABLE again that arrived on A..B, if their source has changed some.

    \b
    Examples:
      backfill raw refresh raw_sales 2017-03-04 --dry-run
      backfill raw refresh raw_sales 2017-03-01..2017-03-07

    Raw is never rewritten. It gains the rows that the source has now, and a deletion for each row that the source no
    longer has; both are published together, with the files as they were read. A row that only moved to another line or
    file of its arrival day stays as it is. What is computed from the days is stale afterwards.

    After `first_day`, `earliest_day` or `days_ahead` was declared anew, a refresh of the days that `backfill status`
    shows as stale moves their rows to the days where they belong now, events of a topic too.

    Events of a topic are not read again. A second refresh finds nothing, and starts no Spark.
    """
    from backfill_assets.answers.raw import refresh_answer

    step = current_catalog().step(table)
    with foreground_builder() as builder:
        if dry_run:
            found = builder.preview_refresh(step, list(days), report_progress)
        else:
            run = run_info("backfill raw refresh")
            found = builder.refresh(step, list(days), run=run, progress=report_progress)
    say_answer(refresh_answer(found))


@raw.command()
@table
@click.argument("days", type=DAYS, metavar="DAY|A..B...", nargs=-1, required=True)
@dry_run
@as_json
def restore(table: str, days: tuple[DayRange, ...], dry_run: bool) -> None:
    """Put rows of the raw TABLE back whose files are gone or damaged.

    \b
    Examples:
      backfill raw restore raw_sales 2017-03-04 --dry-run
      backfill raw restore raw_sales 2017-03-04 2017-03-09..2017-03-11

    The rows are read again: from files that a compaction has replaced, if they are still there, or from the landed
    files that raw has read. A day is published only if it holds just the rows that it held: the same number, checksum
    and content. Nothing that reads it becomes stale. Events of a topic are not read again, and deletions are in no
    landed file: what cannot be put back is named, with files and lines, and the exit code is 1.
    """
    from backfill_assets.answers.raw import restore_answer

    step, wanted = current_catalog().step(table), [day for each in days for day in each]
    with foreground_builder() as builder:
        run = run_info("backfill raw restore")
        found = builder.restore(step, wanted, run=run, dry_run=dry_run, progress=report_progress)
    say_answer(restore_answer(found, dry_run=dry_run))


@raw.command()
@click.argument("table", type=TABLE, required=False)
@click.argument("days", type=DAYS, metavar="[DAY|A..B]", required=False)
@click.option("--replay", is_flag=True, help="Judge the rows again, and build the days on which some are accepted.")
@click.option("--dry-run", is_flag=True, help="With --replay: judge only.")
@as_json
def quarantine(table: str | None, days: DayRange | None, replay: bool, dry_run: bool) -> None:
    """Show why rows of TABLE, or of every table, were rejected; of a DAY also the rows as they landed.

    \b
    Examples:
      backfill raw quarantine                                  why rows were rejected
      backfill raw quarantine quarantine_sales 2017-03-01      the rows of a day
      backfill raw quarantine --replay --dry-run               what the contract of now would accept

    A row with two reasons is counted twice. A row is resolved if the source has landed an accepted version of it
    since. Days that a stream cannot publish, as so many of their rows are rejected, are shown beside: their rows are in
    no quarantine yet. Personal fields are tokens. Starts no Spark.

    With --replay, rows are judged by the current contract and code. The days on which some are accepted are built
    as any run does, with everything downstream that reads them: gates decide, and every received row stays accounted
    for. That starts Spark. The exit code is 1 if no row would be accepted.
    """
    from backfill_assets.answers import raw as answers
    from backfill_assets.landing.quarantine import rejects_named

    rejects = rejects_named(current_catalog(), table)
    if not replay:
        say_answer(answers.rejects_answer(open_storage(), rejects, days))
        return
    with foreground_builder() as builder:
        run = None if dry_run else run_info("backfill raw quarantine --replay")
        done = answers.replay(builder, rejects, days, run, report_progress)
    say_answer(answers.replay_answer(done))
    if not dry_run:
        answers.require_one_freed(done)


@raw.command()
@table
@click.argument("day", type=DAY)
@click.argument("reason")
@as_json
@click.pass_context
def release(ctx: click.Context, table: str, day: date, reason: str) -> None:
    """Publish DAY of TABLE although so many of its rows are rejected. REASON is kept with it.

    \b
    Examples:
      backfill raw release bronze_sales 2026-03-02 "a till sent broken lines; the shop knows"

    The rejected rows stay in quarantine, accounted for, and the gate that counts them warns on this day from now on.
    All that follows raw is published together. Every other gate decides as always. Where the rows are right and the
    contract is not, declare a new version of it instead, and: backfill raw quarantine --replay.
    """
    from backfill_assets.answers import held_back
    from backfill_assets.landing.quarantine import rejects_named

    (rejects,) = rejects_named(current_catalog(), table)
    with foreground_builder() as builder:
        run = run_info("backfill raw release")
        done = held_back.release(builder.lake, rejects, day, reason, run, report_progress)
    say_answer(held_back.release_answer(done))
    ctx.exit(1 if done.done.held_back else 0)


@raw.command()
@click.argument("key")
@click.argument("table", type=TABLE, required=False)
@click.option("--reason", required=True, metavar="TEXT", help="Kept in the log, without the value.")
@yes
@as_json
@click.pass_context
def erase(ctx: click.Context, key: str, table: str | None, reason: str, yes: bool) -> None:
    """Erase the rows with KEY, of TABLE alone if it is given: from raw, from all that is computed from it, and from
    every file that is kept of them.

    \b
    Examples:
      backfill raw erase @ --reason "request 4711"                    all rows with a personal value, which it asks for
      backfill raw erase 32074897568-825412 raw_sales --reason "..."  the rows with this key

    KEY is written as for `backfill trace`; @ stands for a personal value. The command shows what there is, and asks.

    Landed lines are blanked, and raw keeps a tombstone in place of each row: its file, line and days. So received rows
    stay accounted for. What reads the days is built again, by the version it was published with. Then data files that
    had the rows are deleted: nothing older brings them back, neither an undo nor a rewind. Timelines that show them
    have to be deleted first.

    It ends with a search for the value in the lakehouse and its landed files. The exit code is 1 if it is still there:
    run it again, also once a source delivers the rows anew. Topics, Dagster's storage, versions of a bucket and backups
    cannot be erased from here, and are named.
    """
    from backfill_assets.answers.erasure import erased_answer, found_answer, person_of
    from backfill_assets.upkeep.erasure import Erasing

    person = person_of(key, personal_value(key) or "", open_storage(), current_settings())
    with foreground_builder() as builder:
        storage = Path(os.environ.get("DAGSTER_HOME") or current_settings().home / "dagster")
        erasing = Erasing(builder, run_info("backfill raw erase"), report_progress, storage)
        with awaited("Looking for the rows"):
            found = erasing.find(person, table)
        answer = found_answer(found)
        go_on(answer, "Erase this for good?", dry_run=False, yes=yes)
        done = erasing.erase(found, reason)
    say_done(answer, erased_answer(done))
    ctx.exit(1 if done.still else 0)


@raw.command()
@table
@click.argument("moment", type=MOMENT, required=False)
@as_json
def positions(table: str, moment: str | None) -> None:
    """Show what had been read of each source when TABLE was in a published state: now, or at MOMENT.

    \b
    Examples:
      backfill raw positions raw_sales
      backfill raw positions fact_daily_revenue
      backfill raw positions raw_sales 2017-06-01T12:00

    MOMENT is a publication, a time in UTC, or a Delta version of TABLE.

    Of a raw table, the next offset to read of each partition of its topics, and its landed files. Of any other table,
    the same for the raw versions that its days were computed from. All events before the next offset had been read,
    and none from it on. "Live since" is the offset at which history ended. Starts no Spark.
    """
    from backfill_assets.answers.raw import positions_answer

    say_answer(positions_answer(open_storage(), table, moment))
