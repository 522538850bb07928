from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from backfill_assets.cli.foreground import foreground_spark, report_progress, report_step
from backfill_assets.cli.group import CommandFailed
from backfill_assets.cli.output import say_answer, say_json
from backfill_assets.cli.wiring import current_settings
from backfill_assets.examples.lab.counts import Hazard, as_json, columns, count_rows, hazard_texts, sentences
from backfill_assets.examples.lab.page import write_pages
from backfill_assets.report.answer import Answer, Grid, Line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_assets.settings import Settings

ALL = "all"
NAMES = tuple(hazard_texts())
_SMALL = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "2g"}


@click.command(short_help="Play the hazards of a backfill, without this and with it.")
@click.argument("hazard", type=click.Choice([*NAMES, ALL]))
@click.option("--keep", is_flag=True, help="Keep the scratch folder, with each way's tables.")
@click.option(
    "--pages",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write a page and a chart for each hazard into this folder, as `make lab` does.",
)
@click.option("--json", "as_json_text", is_flag=True, help="Print JSON.")
def lab(hazard: str, keep: bool, pages: Path | None, as_json_text: bool) -> None:
    """Show what can go wrong when history is rebuilt beside a live stream.

    \b
    Examples:
      backfill lab collision
      backfill lab all
      backfill lab boundary --keep      then look into its tables
      backfill lab scale --json

    Each HAZARD is played on real lines in a scratch folder: first with a plain stream and plain jobs, then the same
    events with this project. Each way's rows are compared with what was sent. Your lakehouse is not touched. One takes
    two to six minutes, all five take ten to twenty on two cores.

    The exit code is 1 if a plain way did not come out as is said of it, or this project went wrong.
    """
    names = NAMES if hazard == ALL else (hazard,)
    with ExitStack() as stack:
        folder = stack.enter_context(_scratch(keep=keep))
        spark = _quiet(foreground_spark(_embedded(current_settings()), stack, _SMALL))
        found = list(_played(names, spark, folder, show=not as_json_text))
    if as_json_text:
        say_json([as_json(each) for each in found])
    _say_end(folder, keep=keep, pages=write_pages(found, pages) if pages else [], quiet=as_json_text)
    _refuse_surprises(found)


def _played(names: Sequence[str], spark: SparkSession, folder: Path, *, show: bool) -> Iterator[Hazard]:
    from backfill_assets.examples.lab.hazards import HAZARDS, SUNDAY
    from backfill_assets.examples.lab.ways import Workbench

    bench = Workbench(spark, folder, report_step, report_progress)
    bench.warm_up(SUNDAY)
    for name in names:
        found = bench.play(name, HAZARDS[name])
        if show:
            _say(found)
        yield found


def _embedded(settings: Settings) -> Settings:
    """Streaming needs Spark in this process, and no object store."""
    profile = "local" if settings.spark_remote else settings.spark_profile
    return replace(settings, spark_remote=None, spark_profile=profile, lakehouse=settings.home / "lakehouse")


def _quiet(spark: SparkSession) -> SparkSession:
    """Jobs fail here on purpose."""
    import logging

    spark.sparkContext.setLogLevel("OFF")
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    return spark


@contextmanager
def _scratch(*, keep: bool) -> Iterator[Path]:
    if keep:
        yield Path(tempfile.mkdtemp(prefix="backfill-lab-"))
        return
    with tempfile.TemporaryDirectory(prefix="backfill-lab-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _say(hazard: Hazard) -> None:
    counts = Grid("counts", columns(hazard.ways), count_rows(hazard.ways), title=hazard.text.title)
    said = [each.replace("`", "") for each in sentences(hazard)]
    said += [f"  {way.way}: {way.note}" for way in hazard.ways if way.note]
    say_answer(Answer(parts=(counts, *map(Line, said))))


def _say_end(folder: Path, *, keep: bool, pages: Sequence[Path], quiet: bool) -> None:
    for page in pages:
        report_step(f"Written: {page}")
    if not quiet or keep:
        kept = "has each way's tables" if keep else "was the scratch folder, and is removed (--keep leaves it)"
        report_step(f"{folder} {kept}.")


def _refuse_surprises(found: Sequence[Hazard]) -> None:
    names = ", ".join(hazard.text.name for hazard in found if not hazard.shown)
    if names:
        raise CommandFailed(
            f"The counts are not as expected: {names}. Run it again with --keep, and look at its tables."
        )
