"""What landed fields' names imply. Pure."""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise

from backfill_assets.model.contract import Contract
from backfill_assets.model.dataset import ADDED_BY_INGESTION


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TAKEN = frozenset(
    (*ADDED_BY_INGESTION, "day", "occurrence", "str", "int", "float", "bool", "list", "T", "F", "Field", "Annotated")
)
"""A column would hide these."""
_SHORT = 32
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PERSONAL = _words(
    "email mail phone mobile telephone fax ssn passport iban birthday birthdate dob surname firstname "
    "lastname fullname username ip address street postcode password"
)
_PEOPLE = ("first", "last", "full", "middle", "family", "given", "user", "customer", "client", "patient", "person")
_PERSONAL_PAIRS = frozenset(
    f"{one} {two}"
    for one, two in (
        *((who, "name") for who in _PEOPLE),
        *(("e", "mail"), ("birth", "date"), ("credit", "card"), ("card", "number"), ("social", "security")),
        *(("tax", "id"), ("ip", "addr")),
    )
)
_IDS = _words("id uuid guid key no nr number code ref reference")
_MEASURES = _words(
    "amount price cost total sum count quantity qty rate value lat latitude lon lng longitude note notes "
    "comment text description message title percent share score weight height width length duration "
    "distance balance age"
)
_NEWER = _words(
    "updated modified changed version revision rev sequence seq sent exported loaded ingested synced "
    "extracted received written recorded upd load ingest import export snapshot sync etl"
)
_HAPPENED = _words(
    "event occurred happened date dt day time timestamp ts datetime moment measured ordered booked started "
    "start placed sold pickup picked departed departure transaction observed posted when"
)
_OTHER_DAYS = _words(
    "birth birthday birthdate dob expires expiry expired valid due planned scheduled until deadline "
    "deleted end ended closed finished dropoff arrival arrived shipped delivery delivered"
)


def words_of(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(unicodedata.normalize("NFKD", name)))


def columns_of_fields(names: Iterable[str], cut: Collection[str] = ()) -> Mapping[str, str]:
    """Unique but for case; those in ``cut`` are shortened, for long types."""
    found: dict[str, str] = {}
    for name in names:
        taken = {each.lower() for each in found.values()}
        begun = _column(name)[:_SHORT].rstrip("_") if name in cut else _column(name)
        column, number = begun, 2
        while column.lower() in taken:
            column, number = f"{begun}_{number}", number + 1
        found[name] = column
    return found


def _column(name: str) -> str:
    if re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name) and not keyword.iskeyword(name):
        hidden = name.lower() in {each.lower() for each in _TAKEN} or hasattr(Contract, name)
        return f"landed_{name}" if hidden else name
    plain = "_".join(words_of(name)) or "field"
    return _column(plain if plain[0].isalpha() and not keyword.iskeyword(plain) else f"landed_{plain}")


def said_of(name: str) -> str:
    text = " ".join(words_of(name)) or "a field"
    return f"{text[:1].upper()}{text[1:]}."


def may_be_personal(name: str) -> bool:
    words = words_of(name)
    pairs = {f"{one} {two}" for one, two in pairwise(words)}
    return bool(_PERSONAL & {*words, "".join(words)} or _PERSONAL_PAIRS & pairs or words == ("name",))


def rank_as_key(name: str, dataset: str) -> int:
    """0 names rows of ``dataset``; 4 is a measure."""
    words, of = words_of(name), set(words_of(dataset))
    of |= {word.removesuffix("s") for word in of} | {f"{word[:-3]}y" for word in of if word.endswith("ies")}
    if not words or _MEASURES & {*words}:
        return 4
    if words[-1] not in _IDS:
        return 3
    if len(words) == 1 or set(words[:-1]) <= of:
        return 0 if words[-1] in ("id", "uuid", "guid", "key", "number", "no", "nr") else 2
    return 1 if words[-1] in ("id", "uuid", "guid", "key") else 2


def rank_as_day(name: str) -> int:
    """0 is when it happened; 3 a time around it."""
    words = {*words_of(name)}
    if words & _OTHER_DAYS:
        return 3
    if words & _NEWER:
        return 2
    return 0 if words & _HAPPENED else 1


def rank_as_version(name: str) -> int:
    """0 grows with a row's versions."""
    words = {*words_of(name)}
    if words & _NEWER:
        return 0
    return 2 if words & (_HAPPENED | _OTHER_DAYS) else 1
