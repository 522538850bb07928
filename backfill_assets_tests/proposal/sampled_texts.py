"""Samples for tests: files of JSON lines in a database, and rows that plain Python counts."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from backfill_assets.landing.json_lines import JsonLines
from backfill_assets.proposal.field_types import TypedField, typed_field
from backfill_assets.proposal.measured import Sampled, SampledFile, fields_of_json, sampled
from backfill_assets.proposal.profile import DaysSeen, FieldProfile


@contextmanager
def sample_of(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Sampled, Mapping[str, Mapping[str, int]]]]:
    """``rows`` as JSON lines, in a database; and of each field how many values JSON wrote in which way."""
    with TemporaryDirectory() as folder:
        lines = [json.dumps(row) for row in rows]
        file = Path(folder, "a.jsonl")
        file.write_text("\n".join(lines))
        kinds = fields_of_json(lines)
        with sampled(JsonLines(), tuple(kinds), [SampledFile(str(file), None, len(lines))], whole=True) as read:
            yield read, kinds


def profile_of(*texts: Any, name: str = "a_field") -> FieldProfile:
    with sample_of([{name: text} for text in texts]) as (read, kinds):
        (found,) = read.profile(kinds).fields
    return found


def typed_of(*texts: Any, name: str = "a_field") -> TypedField:
    """What is proposed for a field with these values, which JSON has as they are."""
    return typed_field(profile_of(*texts, name=name), len(texts))


def typed_in_one_sample(fields: Mapping[str, Sequence[Any]]) -> dict[str, TypedField]:
    """:func:`typed_of` of each field; those with fewer values than others are not in the last rows."""
    longest = max(map(len, fields.values()))
    rows = [{name: texts[at] for name, texts in fields.items() if at < len(texts)} for at in range(longest)]
    with sample_of(rows) as (read, kinds):
        return {each.name: typed_field(each, len(fields[each.name])) for each in read.profile(kinds).fields}


@dataclass(frozen=True)
class RowsInPython:
    """Rows of typed values, counted as :class:`SampledRows` asks, in plain Python."""

    rows: Sequence[Mapping[str, Any]]

    @cached_property
    def count(self) -> int:
        return len({tuple(each.items()) for each in self.rows})

    @property
    def repeated(self) -> int:
        return len(self.rows) - self.count

    def different(self, columns: Collection[str], day: str = "") -> int:
        return len({(*(row[name] for name in columns), day and day_of(row[day])) for row in self.rows})

    def days(self, field: str) -> DaysSeen:
        found = [day_of(row[field]) for row in self.rows]
        return DaysSeen(min(found), max(found), max(map(found.count, found)))


def day_of(value: date | datetime) -> date:
    return value.astimezone(UTC).date() if isinstance(value, datetime) else value
