"""The raw row of a line in plain Python: an independent answer for the declared query.

What the fields of the line are is given: Spark has read lines for years, and what it read of odd ones is no JSON.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from backfill_assets.model.declaration import Source
from backfill_assets_tests.strategies.values_by_python import content_hash, value_of
from backfill_assets_tests.strategies.xxh64 import chained

Fields = Mapping[str, str | None]
_EPOCH = date(1970, 1, 1).toordinal()
_MICROSECONDS_OF_DAY = 86_400_000_000
_CONTROL = re.compile(r"\\\\|\\u00[0-9a-f]{2}")


@dataclass(frozen=True)
class LineReading:
    """How lines of a source become rows; ``today`` is for lines that may have no arrival day."""

    source: Source
    key: bytes = b""
    today: date | None = None

    def row(self, line: str, read: Fields | None, arrived: date | None) -> dict[str, Any]:
        """All columns but those that say where the line was; ``read`` is None for a line that is no object."""
        names = dict(zip(self.source.fields, self.source.columns, strict=True))
        texts = {
            column: self._landed(name, read[name] if read and name in read else None) for name, column in names.items()
        }
        others = {name: text for name, text in (read or {}).items() if name not in names}
        unparsed = self._withheld(line) if read is None else None
        of_fields = content_hash(texts, self.source)
        return {
            **texts,
            "rescued": _json({name: self._other(name, text) for name, text in others.items()}) if others else None,
            "unparsed_line": unparsed,
            "record_kind": "received",
            **self._placed(texts, arrived),
            "content_hash": of_fields if unparsed is None else chained([unparsed]),
            "superseded_by_day": None,
        }

    # ---------------------------------------------------------------- personal values

    def token(self, text: str | None) -> str | None:
        return hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest() if text else None

    def _landed(self, name: str, text: str | None) -> str | None:
        hides = text is not None and _is_structure(text) and self._is_personal(text)
        return self.token(text) if name in self.source.personal_fields or hides else text

    def _other(self, name: str, text: str | None) -> str | None:
        if not self.source.personal_fields or text is None:
            return text
        return self.token(text) if self._is_personal(name, text) or _is_structure(text) else text

    def _withheld(self, line: str) -> str:
        if not self.source.personal_fields:
            return line
        return f"withheld: {len(line)} characters, HMAC-SHA-256 {self.token(line)}"

    def _is_personal(self, *texts: str) -> bool:
        return any(_letters(name) in _letters(text) for name in self.source.personal_fields for text in texts)

    # ---------------------------------------------------------------- days

    def _placed(self, texts: Fields, arrived: date | None) -> dict[str, Any]:
        named = self._named_day(texts)
        if arrived is None:
            assert self.today is not None
            arrived = named if named is not None and self._is_plausible(named, self.today) else self.today
        plausible = named is not None and self._is_plausible(named, arrived)
        return {"arrival_day": arrived, "day_is_arrival": not plausible, "day": named if plausible else arrived}

    def _named_day(self, texts: Fields) -> date | None:
        """None also for a day that Python does not have."""
        name = self.source.event_day_field
        kind = self.source.type_of(name)
        value = value_of(texts[name], kind)
        if value is not None and kind == "timestamp" and self.source.event_zone != "UTC":
            return _day_there(value, self.source.event_zone)
        days = value if value is None or kind == "date" else value // _MICROSECONDS_OF_DAY
        return None if days is None or days + _EPOCH < 1 else date.fromordinal(days + _EPOCH)

    def _is_plausible(self, day: date, arrived: date) -> bool:
        placement = self.source.placement
        in_time = day.toordinal() <= arrived.toordinal() + placement.days_ahead
        return in_time and (placement.earliest_day is None or day >= placement.earliest_day)


def _day_there(microseconds: int, zone: str) -> date | None:
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
        return moment.astimezone(ZoneInfo(zone)).date()
    except OverflowError:
        return None


def _letters(text: str) -> str:
    return re.sub("[^a-z0-9]", "", text.lower())


def _is_structure(text: str) -> bool:
    return "{" in text or "[" in text


def _json(fields: Fields) -> str:
    written = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return _CONTROL.sub(lambda found: found[0].upper().replace("U", "u"), written)
