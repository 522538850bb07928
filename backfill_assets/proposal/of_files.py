from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets import clock
from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest
from backfill_assets.landing.compressed import COMPRESSIONS
from backfill_assets.landing.csv_files import Csv
from backfill_assets.landing.json_lines import JsonLines
from backfill_assets.landing.parquet_files import Parquet
from backfill_assets.landing.records import lines_in
from backfill_assets.model.landed_format import Format
from backfill_assets.proposal.declaration_text import Proposal, declaration
from backfill_assets.proposal.dialect import dialect_of
from backfill_assets.proposal.field_types import null_word_of, typed_field
from backfill_assets.proposal.measured import Sampled, fields_of_json, sampled
from backfill_assets.proposal.profile import DaysSeen
from backfill_assets.proposal.questions import questions_in
from backfill_assets.proposal.roles import proposed_roles
from backfill_assets.proposal.sample import Chosen, Copied, Kind, choose, copied
from backfill_assets.proposal.table_sample import type_of_arrow
from backfill_assets.text import format_count


@dataclass(frozen=True)
class Proposed:
    text: str
    file: Path
    landed_as: str
    """``2026-01-05/orders.csv``, or only a name with the day."""
    arrived: date
    """By folder or name, else its last day."""
    days: DayRange | None
    questions: int


@dataclass(frozen=True)
class _Read:
    format: Format
    given: Mapping[str, object]
    fields: Mapping[str, Mapping[str, int]]
    """Values by JSON kind."""
    questions: tuple[str, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)


def proposed(name: str, package: str, path: Path) -> Proposed:
    """Samples ``path``. Raises :class:`InvalidRequest` without records or known format, :class:`SourceUnreadable` for
    damage.
    """
    chosen = choose(path)
    with TemporaryDirectory(prefix="backfill-sample-") as folder:
        files = copied(chosen, Path(folder))
        read = _READ[chosen.kind](files)
        if not read.fields:
            raise InvalidRequest(f"{path} has no record to read.", hint="Name a file with records, one a line.")
        return _proposed(name, package, chosen, files, read)


def _json(files: Copied) -> _Read:
    lines = [text for file in files.files for _, text in _some(Path(file.path), file.most)]
    if lines and lines[0].lstrip().startswith("["):
        raise InvalidRequest(
            "It is one array of JSON, not a record a line.", hint="Write an object a line: jq -c '.[]' FILE."
        )
    return _Read(JsonLines(), {}, fields_of_json(lines))


def _some(path: Path, most: int) -> list[tuple[int, str]]:
    return [found for found, _ in zip(lines_in(path), range(most), strict=False)]


def _delimited(files: Copied) -> _Read:
    found = dialect_of(Path(files.files[-1].path), files.encoding)
    plain = replace(found.format, encoding="utf-8")
    with sampled(plain, found.fields, files.files, whole=files.whole) as rows:
        word = null_word_of(rows.profile({}).fields)
    given = {**found.given, "null": word} if word else found.given
    format_: Csv = replace(plain, null=word)
    return _Read(format_, given, {name: {} for name in found.fields}, found.questions)


def _rows(files: Copied) -> _Read:
    schema = pq.read_schema(files.files[-1].path)
    types = {each.name: kind for each in schema if (kind := type_of_arrow(each.type)).startswith(_SAID)}
    kinds = {each.name: {"text": 1} if type_of_arrow(each.type) == "string" else {} for each in schema}
    if not any(pa.types.is_timestamp(each.type) and each.type.tz is None for each in schema):
        return _Read(Parquet(), {}, kinds, types=types)
    asked = "in which zone are moments that name none, as pandas writes them? They are read as those of UTC."
    return _Read(Parquet(zone="UTC"), {"zone": "UTC"}, kinds, (asked,), types)


_SAID = ("bigint", "int", "smallint", "tinyint", "double", "float", "decimal(", "boolean", "date")
_READ: Mapping[Kind, Callable[[Copied], _Read]] = MappingProxyType(
    {"json": _json, "delimited": _delimited, "parquet": _rows}
)


def _proposed(name: str, package: str, chosen: Chosen, files: Copied, read: _Read) -> Proposed:
    kept, alike = _without_alike(read.fields)
    with sampled(read.format, kept, files.files, whole=files.whole, alike=alike) as rows:
        proposal, days = _proposal(name, package, chosen, read, rows)
    newest, roles = chosen.files[-1], proposal.roles
    seen = days.get(roles.day)
    arrived = newest.arrived or (seen.last if seen else clock.today())
    file_name = _as_landed(newest.path.name, read.format)
    sound = bool(seen and roles.key and roles.version)
    text = declaration(proposal)
    return Proposed(
        text,
        newest.path,
        file_name if chosen.pattern else f"{arrived}/{file_name}",
        arrived,
        DayRange(seen.first, seen.last) if seen and sound else None,
        sum(1 for _ in questions_in(text)),
    )


def _proposal(
    name: str, package: str, chosen: Chosen, read: _Read, rows: Sampled
) -> tuple[Proposal, Mapping[str, DaysSeen]]:
    profile = rows.profile(read.fields, read.types)
    if not profile.rows:
        raise InvalidRequest("No record of it can be read.", hint="Name a file with records, one a line.")
    fields = tuple(typed_field(each, profile.rows) for each in profile.fields)
    typed = rows.typed(fields)
    days = {each.name: seen for each in fields if each.is_time and (seen := typed.days(each.name))}
    roles = proposed_roles(name, fields, typed, days)
    day = days.get(roles.day)
    ordered = [each.name for each in fields if each.type in _ORDERED or each.type.startswith("decimal")]
    questions = [*read.questions]
    if profile.unread:
        questions.append(
            f"why can {format_count(profile.unread, 'record')} of the sample not be read? They would be quarantined."
        )
    if profile.alike:
        questions.append(
            f"what is {', '.join(profile.alike)}? There is a field of that name but for case; it is kept in rescued."
        )
    said = ", ".join(each.path.name for each in chosen.files)
    cut = "" if profile.whole else "the first "
    proposal = Proposal(
        name=name,
        package=package,
        said=f"{cut}{format_count(profile.rows, 'row')} of {said}",
        rows=profile.rows,
        fields=fields,
        roles=roles,
        first_day=day.first if day else None,
        most_rows=day.most_rows if day else profile.rows,
        ranges={each: typed.least_and_greatest(each) for each in ordered},
        format=None if chosen.kind == "json" else (type(read.format).__name__, read.given),
        files=_as_landed(chosen.pattern, read.format) if chosen.pattern else "",
        repeated=typed.repeated,
        questions=tuple(questions),
    )
    return proposal, days


_ORDERED = ("bigint", "double", "date", "timestamp")


def _without_alike(fields: Mapping[str, object]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    kept: dict[str, str] = {}
    for name in fields:
        kept.setdefault(name.lower(), name)
    return tuple(kept.values()), tuple(name for name in fields if name not in kept.values())


def _as_landed(name: str, format_: Format) -> str:
    if name.endswith(tuple(format_.endings)):
        return name
    compression = next((each for each in COMPRESSIONS if name.endswith(each)), "")
    stem = name.removesuffix(compression)
    return f"{stem.rpartition('.')[0] or stem}{'.jsonl' if format_.of_json else '.csv'}{compression}"
