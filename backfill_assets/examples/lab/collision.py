"""Hazard 1: a backfill rewrites days while the stream appends to them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from backfill_assets.days import DayRange
from backfill_assets.examples.lab.hazard import Hazard, HazardText
from backfill_assets.examples.lab.plain import PlainLake
from backfill_assets.examples.lab.safe import OVERTAKEN, SafeLake
from backfill_assets.examples.lab.workbench import Played, Workbench
from backfill_assets.examples.sample.real import sales_lines
from backfill_assets.rebuild.outcome import STAGED_AGAIN
from backfill_assets.text import format_count

DAYS = DayRange(date(2017, 3, 4), date(2017, 3, 5))
SATURDAY, SUNDAY = DAYS.first, DAYS.last
_LATER = 5
"""One line in so many lands later than the others."""
TEXT = HazardText(
    name="collision",
    title="Collision: a backfill and a stream write the same days",
    question="What happens to rows that the stream appends while a backfill rewrites their day?",
    events=(
        "Most lines of a Saturday and a Sunday land. The stream appends them.",
        "A backfill of both days begins. It plans its read of the Saturday: it lists the files that are there.",
        "A file with the other lines of the Saturday lands. The stream appends it. Only then the backfill writes.",
        "A file with the other lines of the Sunday lands. The backfill reads it with the others and writes the Sunday.",
        "The stream's next trigger finds the Sunday's file, and appends it.",
    ),
    why_wrong="`replaceWhere` deletes what came between its read and its write, and the stream's append does not know "
    "that the backfill has read the same file; a backfill that appends adds to what the stream has written.",
    why_safe="A publication says which state of its days it replaces, and is refused if they have moved: they are "
    "staged again, from what has come in by then. Which files were read is committed with their rows, so that each "
    "counts once, whichever reader was first.",
    careful="Where both merge by key, in any order, each sale is in the table once. Each merge rewrites every file "
    "that it finds a key in. Readers see each one as it is written, judged by nothing, and it changes one table: what "
    "reads this one is wrong until it follows. A row that the new logic would leave out stays.",
    aside="Delta sees no conflict, at no isolation level: its transactions follow each other here, and the read of the "
    "source is part of none.",
    look=("backfill_assets/rebuild/step_build.py", "backfill_assets/rebuild/ingest.py"),
)
Lines = dict[str, list[str]]
"""Of one day, by the name of the file that they land in."""


def run(bench: Workbench, days: DayRange = DAYS, thin: int = 1) -> Hazard:
    """Play it; of the real lines one in ``thin``."""
    files = {day: _files(lines[::thin]) for day, lines in sales_lines(days).items()}
    lake = bench.lakehouse("collision", "this project")
    return Hazard(
        TEXT,
        (
            bench.naive("collision", "replaceWhere", lambda plain: replace_where(plain, files)),
            bench.naive("collision", "append", lambda plain: append(plain, files)),
            bench.careful("collision", "MERGE by key", lambda plain: merge(plain, files)),
            bench.safe("collision", "this project", lake, lambda: published(lake, files)),
        ),
    )


def _files(lines: list[str]) -> Lines:
    later = lines[::_LATER]
    return {"first": [line for line in lines if line not in set(later)], "later": later}


def replace_where(lake: PlainLake, files: dict[date, Lines]) -> Played:
    """The backfill replaces each day by what it reads of the source."""
    return _plain(lake, files, lake.stream, lambda rows, day: lake.replace_days(rows, [day]))


def append(lake: PlainLake, files: dict[date, Lines]) -> Played:
    """The backfill appends what it reads of the source."""
    return _plain(lake, files, lake.stream, lambda rows, day: lake.append(rows))


def merge(lake: PlainLake, files: dict[date, Lines]) -> Played:
    """Backfill and stream merge what they read by key."""
    return _plain(lake, files, lake.stream_merging, lambda rows, day: lake.merge(rows))


def _plain(lake: PlainLake, files: dict[date, Lines], stream: Callable[[], None], write: Callable[..., None]) -> Played:
    drop_all(lake, files, "first")
    stream()
    saturday = lake.source([SATURDAY])
    lake.landed.drop(SATURDAY, "later", files[SATURDAY]["later"])
    stream()
    write(saturday, SATURDAY)
    lake.landed.drop(SUNDAY, "later", files[SUNDAY]["later"])
    write(lake.source([SUNDAY]), SUNDAY)
    stream()
    return Played()


def published(lake: SafeLake, files: dict[date, Lines]) -> Played:
    """The same drops between the same reads and writes."""
    drop_all(lake, files, "first")
    lake.stream(list(DAYS))

    def saturday_moves() -> None:
        lake.landed.drop(SATURDAY, "later", files[SATURDAY]["later"])
        lake.stream([SATURDAY])

    lake.rebuild(list(DAYS), when_staged=saturday_moves, force=True)
    lake.landed.drop(SUNDAY, "later", files[SUNDAY]["later"])
    lake.take_in([SUNDAY], when_staged=lambda: lake.stream([SUNDAY]))
    lake.rebuild([SUNDAY])
    lake.stream([SUNDAY])
    again = format_count(lake.reported(STAGED_AGAIN), "time")
    other = format_count(lake.reported(OVERTAKEN), "time")
    return Played(f"Refused and staged again: {again}. Files that the stream had read before the backfill: {other}.")


def drop_all(lake: PlainLake | SafeLake, files: dict[date, Lines], name: str) -> None:
    for day, lines in files.items():
        lake.landed.drop(day, name, lines[name])
