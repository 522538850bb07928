from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from backfill_assets.errors import InvalidRequest
from backfill_assets.landing.compressed import COMPRESSIONS, content_of
from backfill_assets.model.arrival_days import FileNames, folder_day
from backfill_assets.model.landed_format import FILES_OF_ROWS
from backfill_assets.proposal.measured import SampledFile

MOST_ROWS, MOST_BYTES = 100_000, 20_000_000
_MOST_FILES = 3
_JSON = (".jsonl", ".ndjson", ".json")
_DELIMITED = (".csv", ".tsv", ".txt", ".dat", ".psv")
_ENDINGS = f"Names end in {', '.join((*_JSON, *_DELIMITED))}, plain, .gz or .zst, or in {' or '.join(FILES_OF_ROWS)}."
Kind = Literal["json", "delimited", "parquet"]
_FORMS = (("{day}", r"\d{4}-\d{2}-\d{2}"), ("{day:%Y%m%d}", r"\d{8}"), ("{day:%Y_%m_%d}", r"\d{4}_\d{2}_\d{2}"))


@dataclass(frozen=True)
class SampleFile:
    path: Path
    arrived: date | None
    in_folder: bool = False

    @property
    def plain_name(self) -> str:
        return self.path.name.removesuffix(self.path.suffix if self.path.suffix in COMPRESSIONS else "")

    @property
    def kind(self) -> Kind:
        if self.path.name.endswith(FILES_OF_ROWS):
            return "parquet"
        return "json" if self.plain_name.endswith(_JSON) else "delimited"


@dataclass(frozen=True)
class Chosen:
    files: tuple[SampleFile, ...]
    kind: Kind
    pattern: str = ""


def choose(path: Path) -> Chosen:
    """Raises :class:`InvalidRequest` without a file."""
    if not path.exists():
        raise InvalidRequest(f"{path} is not there.", hint="Name a file, or a folder with files, on this machine.")
    there = sorted(_files(path), key=lambda found: (found.arrived or date.min, found.path.name))
    if not there:
        raise InvalidRequest(
            f"{path} has no file to read.",
            hint=_ENDINGS,
        )
    kind = there[-1].kind
    alike = [found for found in there if found.kind == kind]
    in_folders = any(found.in_folder for found in alike)
    pattern = "" if in_folders else pattern_of([found.path.name for found in alike])
    named = FileNames(pattern) if pattern else None
    dated = [SampleFile(each.path, named.day_of(each.path.name)) if named else each for each in alike]
    newest = sorted(dated, key=lambda found: (found.arrived or date.min, found.path.name))[-_MOST_FILES:]
    return Chosen(tuple(newest), kind, pattern)


def _files(path: Path) -> Iterator[SampleFile]:
    if path.is_file():
        day = folder_day(path.parent.name)
        if not _is_readable(path):
            raise InvalidRequest(f"{path.name} is no file that is read here.", hint=_ENDINGS)
        yield SampleFile(path, day, day is not None)
        return
    for each in sorted(path.rglob("*")):
        inside = each.relative_to(path).parts
        if (
            each.is_file()
            and _is_readable(each)
            and each.stat().st_size
            and not any(part[0] in "._" for part in inside)
        ):
            day = folder_day(each.parent.name)
            yield SampleFile(each, day, day is not None)


def _is_readable(path: Path) -> bool:
    return SampleFile(path, None).plain_name.endswith((*_JSON, *_DELIMITED, *FILES_OF_ROWS))


def pattern_of(names: Sequence[str]) -> str:
    """``sales_{day:%Y%m%d}.csv``; empty unless all have it."""
    for mark, like in _FORMS:
        parts = [re.fullmatch(rf"(.*?)(?<!\d){like}(?!\d)(.*)", name, re.DOTALL) for name in names]
        if not all(parts):
            continue
        before, after = ([part[group] for part in parts if part] for group in (1, 2))
        pattern = f"{_same(before)}{mark}{_same(after)}"
        try:
            if all(FileNames(pattern).day_of(name) for name in names):
                return pattern
        except InvalidRequest:
            continue
    return ""


def _same(parts: Sequence[str]) -> str:
    if len({*parts}) == 1:
        return parts[0]
    ending = _begin([part[::-1] for part in parts])[::-1]
    return f"{re.sub('[0-9]+$', '', _begin(parts))}*{re.sub('^[A-Za-z0-9]+', '', ending)}"


def _begin(texts: Sequence[str]) -> str:
    least, greatest = min(texts), max(texts)
    return next((least[:at] for at, sign in enumerate(least) if sign != greatest[at]), least)


# ------------------------------------------------------------------ plain copies


@dataclass(frozen=True)
class Copied:
    files: tuple[SampledFile, ...]
    encoding: str
    whole: bool


def copied(chosen: Chosen, into: Path) -> Copied:
    """At most :data:`MOST_BYTES` together, in UTF-8. Parquet is read in place."""
    most = MOST_ROWS // len(chosen.files)
    if chosen.kind == "parquet":
        there = tuple(SampledFile(str(each.path), each.arrived, most) for each in chosen.files)
        return Copied(there, "", all(_rows_in(each.path) <= most for each in chosen.files))
    share = MOST_BYTES // len(chosen.files)
    parts = [_first_bytes(each.path, share) for each in chosen.files]
    encoding = "utf-8" if all(_is_utf8(text) for text, _ in parts) else "latin-1"
    ending = ".jsonl" if chosen.kind == "json" else ".csv"
    files = []
    for number, (each, (text, _)) in enumerate(zip(chosen.files, parts, strict=True)):
        plain = into / f"{number}{ending}"
        plain.write_bytes(text if chosen.kind == "json" or encoding == "utf-8" else text.decode(encoding).encode())
        files.append(SampledFile(str(plain), each.arrived, most))
    return Copied(tuple(files), encoding, all(whole for _, whole in parts))


def _rows_in(path: Path) -> int:
    try:
        return int(pq.read_metadata(path).num_rows)
    except pa.ArrowException as error:
        raise InvalidRequest(f"{path} is no file of Parquet: {error}", hint="Name another one.") from error


def _first_bytes(path: Path, most: int) -> tuple[bytes, bool]:
    """Whole lines; and whether they are all."""
    found, size = [], 0
    for part in content_of(path):
        found.append(part)
        size += len(part)
        if size > most:
            text = b"".join(found)[:most]
            return text[: text.rfind(b"\n") + 1], False
    return b"".join(found), True


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
