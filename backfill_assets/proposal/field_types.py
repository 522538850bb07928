"""Field types by sampled values: each can be read without losing a digit. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from backfill_assets.proposal.forms import (
    COMMA,
    E_MAIL,
    EMPTY,
    HAS_E_MAIL,
    IP_ADDRESS,
    LISTS,
    LOSSLESS,
    NO_ZONE,
    NULL_WORDS,
    OBJECT,
    OTHER_DAY,
    OTHER_MOMENT,
    PADDED,
    PLAIN,
    SCALARS,
    WHOLE,
)
from backfill_assets.proposal.names import may_be_personal
from backfill_assets.proposal.profile import FieldProfile
from backfill_assets.text import escape_controls

_MOST_BEHIND = 9
"""More decimals mean a computed number: a double, if no digit is lost."""
_USUAL, _MOST = 18, 38
_SHOWN = 40
_SHOWN_TYPES = ("string", "boolean")
"""Others show least and greatest value."""
_MOST_SHOWN = 6


@dataclass(frozen=True)
class TypedField:
    profile: FieldProfile
    type: str
    nullable: bool
    questions: tuple[str, ...] = ()
    personal: bool = False

    @property
    def name(self) -> str:
        return self.profile.name

    @property
    def is_time(self) -> bool:
        return self.type in ("date", "timestamp")


def typed_field(field: FieldProfile, rows: int) -> TypedField:
    kind = field.typed or _type_of(field)
    personal = kind == "string" and _is_personal(field)
    asked = [] if field.typed else list(_type_questions(field, kind))
    if personal:
        asked.append(_personal_question(field))
    return TypedField(field, kind, field.present < rows, tuple(asked), personal)


def _type_of(field: FieldProfile) -> str:
    if field.forms.get(PADDED, 0) or _is_text_of_digits(field):
        return "string"
    if (kind := _decimal_of(field)) or (kind := next((each for each in LISTS if field.all_fit(each)), "")):
        return kind
    kind = next((each for each in SCALARS if field.all_fit(each)), "string")
    return "string" if kind == "double" and not field.all_are(LOSSLESS) else kind


def _is_text_of_digits(field: FieldProfile) -> bool:
    """JSON has numbers: ``"1001"`` is a name."""
    return field.all_are(WHOLE) and field.kinds.get("text", 0) > 0


def _decimal_of(field: FieldProfile) -> str:
    """Usual whole numbers are no decimals, nor is what a double holds as well."""
    if not field.all_are(PLAIN) or field.all_fit("bigint"):
        return ""
    if field.behind > _MOST_BEHIND and field.all_are(LOSSLESS):
        return ""
    if field.before + field.behind > _MOST:
        return ""
    return f"decimal({_USUAL if field.before + field.behind <= _USUAL else _MOST},{field.behind})"


# ------------------------------------------------------------------ what is not known


def _type_questions(field: FieldProfile, kind: str) -> Iterator[str]:
    if not field.present:
        yield "what is it? It has no value in the sample, and is text until it has."
    elif field.all_are(EMPTY):
        yield "what is it? It is empty in the sample, and is text until it has a value."
    elif kind == "string":
        yield from _questions_of_text(field)


def _questions_of_text(field: FieldProfile) -> Iterator[str]:
    if field.all_are(NO_ZONE):
        yield "in which zone are these moments? One is read with Z or an offset, 2026-01-05T10:00:00Z; so it is text."
    elif field.all_are(OTHER_DAY):
        yield "are these days? One is read as 2026-01-05; so it is text."
    elif field.all_are(OTHER_MOMENT):
        yield "are these moments? One is read as 2026-01-05T10:00:00Z; so it is text."
    elif field.all_are(COMMA):
        yield "are these numbers? One is read with a point, 1234.50; so it is text."
    elif (word := _null_word(field)) is not None:
        yield f"does {json.dumps(word)} say that there is no value? It is no {_rest_of(field)}; so it is text."


def _null_word(field: FieldProfile) -> str | None:
    found = [word for word in ("", *NULL_WORDS) if 0 < _count(field, word) < field.present]
    return next((word for word in found if _fits_without(field, _count(field, word))), None)


def _count(field: FieldProfile, word: str) -> int:
    return field.forms.get(word or EMPTY, 0)


def _fits_without(field: FieldProfile, others: int) -> bool:
    return any(field.fits.get(kind, 0) == field.present - others for kind in SCALARS)


def _rest_of(field: FieldProfile) -> str:
    best = max(SCALARS, key=lambda kind: field.fits.get(kind, 0))
    return {"bigint": "number", "double": "number", "timestamp": "moment"}.get(best, best)


def null_word_of(fields: Sequence[FieldProfile]) -> str:
    """The word that gives most values a type; empty if none does."""
    gains = {word: sum(_count(each, word) for each in fields if _gains(each, word)) for word in NULL_WORDS}
    return max((word for word in gains if gains[word]), key=lambda word: gains[word], default="")


def _gains(field: FieldProfile, word: str) -> bool:
    return 0 < _count(field, word) < field.present and _fits_without(field, _count(field, word))


def _is_personal(field: FieldProfile) -> bool:
    values = (E_MAIL, IP_ADDRESS, HAS_E_MAIL)
    return may_be_personal(field.name) or any(field.forms.get(form, 0) * 2 > field.present for form in values)


def _personal_question(field: FieldProfile) -> str:
    form = next((each for each in (E_MAIL, IP_ADDRESS) if field.forms.get(each, 0) * 2 > field.present), "")
    why = f"Values look like {form}{'es' if form.endswith('s') else 's'}." if form else ""
    if not why:
        why = "Its name says so." if may_be_personal(field.name) else "Values have e-mail addresses in them."
    return f"is {field.name} personal? {why} Then this is right: a token stands for each value. Else declare it as str."


# ------------------------------------------------------------------ what was seen


def evidence(typed: TypedField, rows: int) -> str:
    """A line without a personal field's values."""
    field = typed.profile
    said = [f"{field.present:,} of {rows:,} rows, {_different(field.different)}"]
    if field.kinds and (kinds := [kind for kind in field.kinds if field.kinds[kind]]) and kinds != ["text"]:
        said.append(f"JSON {' and '.join(kinds)}")
    if field.all_are(OBJECT) and typed.type == "string":
        said.append("F.get_json_object takes a part of it")
    if typed.type.startswith("decimal") and not field.typed:
        said.append(f"at most {field.before} digits before the point and {field.behind} behind it")
    if (
        field.few
        and typed.type in _SHOWN_TYPES
        and not typed.personal
        and len(field.few) <= _MOST_SHOWN
        and field.different < field.present
    ):
        said.append("such as " + ", ".join(map(_shown, field.few[:3])) if len(field.few) > 3 else _all(field.few))
    return "; ".join(said)


def _different(count: int) -> str:
    return f"{count:,} different value{'' if count == 1 else 's'}"


def _all(values: Sequence[str]) -> str:
    return ", ".join(map(_shown, values))


def _shown(value: str) -> str:
    text = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..."
    return escape_controls(json.dumps(text, ensure_ascii=False))
