"""Rows of a person: where they are, and what became of them."""

from __future__ import annotations

from collections.abc import Iterator

from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.token_key import require_same_key, token_of
from backfill_assets.report.answer import Answer, Days, Fact, Grid, Id, Line, Part, Tone
from backfill_assets.settings import Settings
from backfill_assets.upkeep.erasure import Erased, FoundPerson
from backfill_assets.upkeep.find_person import DataSubject

_MOST_NAMED = 20


def person_of(key: str, value: str, storage: Storage, settings: Settings) -> DataSubject:
    """Raises :class:`~backfill_assets.errors.LakehouseUnusable` without the lakehouse's token key."""
    if not value:
        return DataSubject(key)
    require_same_key(storage, settings.token_key_file)
    return DataSubject(key, value, token_of(value, settings.token_key_file))


def found_answer(found: FoundPerson) -> Answer:
    rows = [(each.table, sum(each.rows.values()), Days.of(sorted(each.rows))) for each in found.raw if each.rows]
    files = [(table, len(paths)) for table, paths in sorted(found.files.items())]
    parts: tuple[Part, ...] = (
        Grid("rows", ("table", "rows", "days"), rows, title="Rows that came in"),
        Grid("files", ("table", "files with them"), files, title="Data files, old ones and timelines included"),
        *(Line(f"The timeline {name} shows them: delete it first.", Tone.BAD) for name in found.timelines),
    )
    return Answer(parts=parts)


def erased_answer(done: Erased) -> Answer:
    publications = [Id(each.publication) for each in done.raw if each.publication]
    built = [(step, len(result.days), [*map(Id, result.publications)]) for step, result in done.built]
    lines = [(file, count) for each in done.raw for file, count in sorted(each.blanked.items())]
    parts: tuple[Part, ...] = (
        Fact("publications", publications),
        Grid("built", ("table", "days", "publications"), built, title="Built without them"),
        Grid("blanked", ("landed file", "lines"), lines, title="Landed lines that are blank now"),
        Grid("deleted", ("table", "files"), sorted(done.deleted.items()), title="Data files deleted"),
        *_left(done),
    )
    return Answer(parts=parts)


def _left(done: Erased) -> Iterator[Part]:
    if done.still:
        shown = [(place,) for place in done.still]
        yield Grid("still here", ("place",), shown, title="Still here", most=_MOST_NAMED)
        yield Line("Something of it is still here: put right what stands in the way, then run this again.", Tone.BAD)
    else:
        yield Line("Nothing of it is left in the lakehouse or its landed files.", Tone.GOOD)
    yield Grid("elsewhere", ("place",), [(each,) for each in done.elsewhere], title="Not erased from here")
