"""The arrival day of a landed file. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from pathlib import PurePosixPath

from backfill_assets.days import day_or_none
from backfill_assets.errors import InvalidRequest

_DAY = re.compile(r"\{day(?::([^{}]+))?\}")
_IN_A_NAME = re.compile(r"(?<![0-9])[0-9]{4}-?[0-9]{2}-?[0-9]{2}(?![0-9])")
_OF_FOLDER = "day="
_OF_PATTERNS = frozenset("{}[]?\\/")
_ANY_DAY = date(2017, 3, 14)


@dataclass(frozen=True)
class FileNames:
    """Names such as ``sales_{day}.csv``, ``{day:%Y%m%d}-*.jsonl.gz``; ``*`` is any text.

    ``{day}`` is an ISO date, or has a ``strftime`` format of the whole day; else :class:`InvalidRequest`.
    """

    pattern: str

    def __post_init__(self) -> None:
        once = len(_DAY.findall(self.pattern)) == 1
        if not once or _OF_PATTERNS & set(_DAY.sub("", self.pattern)) or not _says_a_day(_form(self.pattern)):
            raise InvalidRequest(
                f"Names of landed files cannot be declared as {self.pattern!r}.",
                hint='Name the whole day once, no folder, and of patterns only "*": files="sales_{day}.csv", or '
                'files="{day:%Y%m%d}-*.jsonl.gz".',
            )

    def day_of(self, name: str) -> date | None:
        found = _compiled(self.pattern).fullmatch(name)
        if found is None:
            return None
        form = _form(self.pattern)
        return _read(found["day"], form) if form else day_or_none(found["day"])

    @property
    def glob(self) -> str:
        """A superset: :meth:`day_of` decides."""
        return _DAY.sub("*", self.pattern)


def folder_day(name: str) -> date | None:
    return day_or_none(name.removeprefix(_OF_FOLDER))


def arrival_day(path: str, files: str = "") -> date | None:
    """``path`` begins with its source's folder. A path without the pattern ``files`` has its day in the last folder, or
    as the name's only date.
    """
    _, *folders, name = PurePosixPath(path).parts
    named = FileNames(files).day_of(name) if files and not folders else None
    if named is not None:
        return named
    if folders:
        return folder_day(folders[-1])
    found = [day for text in _IN_A_NAME.findall(name) if (day := _day_or_none(text))]
    return found[0] if len(found) == 1 else None


def _day_or_none(text: str) -> date | None:
    digits = text.replace("-", "")
    return day_or_none(f"{digits[:4]}-{digits[4:6]}-{digits[6:]}")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    before, after = _DAY.sub("\0", pattern).split("\0")
    day = "(?P<day>.+)" if _form(pattern) else "(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    return re.compile(f"{_text(before)}{day}{_text(after)}")


def _text(part: str) -> str:
    return ".*".join(map(re.escape, part.split("*")))


def _read(text: str, form: str) -> date | None:
    try:
        return datetime.strptime(text, form).replace(tzinfo=UTC).date()
    except ValueError:
        return None


def _says_a_day(form: str) -> bool:
    return not form or ("/" not in form and _read(_ANY_DAY.strftime(form), form) == _ANY_DAY)


def _form(pattern: str) -> str:
    found = _DAY.search(pattern)
    return (found[1] or "") if found else ""
