"""What a build brings to a timeline: the days that it has staged, and those that main has from the same inputs."""

from __future__ import annotations

from datetime import date

from backfill_assets.days import TableDay
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse.delta_log import read_log
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.named_timelines import HeldDay
from backfill_assets.rebuild.replace import ReplaceBuild


def built_days(build: ReplaceBuild, table: str, timeline: str) -> dict[date, HeldDay]:
    """The days of ``table`` that the timeline of the name ``timeline`` holds after ``build``.

    Raises :class:`PublicationRefused` if main has published a day again since it was found unchanged.
    """
    staged = {
        each.day: HeldDay(day=each.day, content=each.content, files=each.files)
        for held in build.staged.values()
        for each in held
        if each.table == table
    }
    return staged | _days_of_main(build, table, timeline)


def _days_of_main(build: ReplaceBuild, table: str, timeline: str) -> dict[date, HeldDay]:
    if not build.reused:
        return {}
    storage = build.lake.storage
    main = MainTable.open(storage, table)
    active = read_log(storage, table, main.version).active if main else {}
    found = {}
    for day, pin in build.reused.items():
        key = TableDay(table, day)
        paths = pin.expected[key].files
        if any(path not in active for path in paths):
            raise PublicationRefused(
                f"{table} {day} was published again while it was taken over on the timeline {timeline}.",
                hint="What was staged is kept: run the command again.",
            )
        found[day] = HeldDay(day=day, content=pin.states[key].content, files=tuple(active[path] for path in paths))
    return found
