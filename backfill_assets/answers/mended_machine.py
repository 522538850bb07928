"""What ``doctor --fix`` fetches or creates."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from backfill_assets.errors import BackfillError, LakehouseUnusable
from backfill_assets.report.answer import Answer, Grid, Tone, Toned
from backfill_assets.settings import Settings
from backfill_assets.spark.class_archive import archive_file
from backfill_assets.text import format_count


@dataclass(frozen=True)
class Mended:
    what: str
    done: str
    well: bool = True


Mend = Callable[[Settings], str]
"""Returns what it did, empty for nothing. Raises :class:`BackfillError`."""


def mend(settings: Settings, report: Callable[[str], None]) -> Iterator[Mended]:
    """Goes in order of dependence, also after a failure. ``report`` gets lines about slow ones."""
    for what, mend_it in _mends(report).items():
        try:
            done = mend_it(settings)
        except BackfillError as error:
            yield Mended(what, str(error), well=False)
        else:
            if done:
                yield Mended(what, done)


def mended_answer(found: Sequence[Mended]) -> Answer:
    rows = [(each.what, Toned(each.done, Tone.GOOD if each.well else Tone.BAD)) for each in found]
    return Answer(parts=(Grid("fixed", ("what", "done"), rows or [("nothing", "was missing that can be made")]),))


def _mends(report: Callable[[str], None]) -> Mapping[str, Mend]:
    return {"JARs": partial(_jars, report), "class archive": partial(_class_archive, report)}


def _jars(report: Callable[[str], None], settings: Settings) -> str:
    from backfill_assets.spark.jars import fetch_jars, locked_jars

    try:
        locked_jars(settings)
    except LakehouseUnusable:
        report("Fetching the JARs of Spark ...")
        fetched = fetch_jars(settings)
        return f"{format_count(len(fetched), 'JAR')} fetched into {settings.jars}"
    return ""


def _class_archive(report: Callable[[str], None], settings: Settings) -> str:
    from backfill_assets.spark.archive_classes import PATIENCE_SECONDS, archive_classes
    from backfill_assets.spark.jars import locked_jars

    if archive_file(settings).exists():
        return ""
    locked_jars(settings)  # Raises without JARs: Spark cannot start.
    report("Archiving Spark's classes, so that it starts sooner: a minute ...")
    try:
        made = archive_classes(settings)
    except subprocess.TimeoutExpired as error:
        words = f"A day for it was not built within {PATIENCE_SECONDS} s: Spark starts some seconds slower without one."
        raise LakehouseUnusable(words, hint="Try again when the machine has time.") from error
    return f"{made.stat().st_size / 1e6:.0f} MB made in {made}" if made else "this Java makes none"
