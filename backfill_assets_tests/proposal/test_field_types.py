"""The type that is proposed for a field reads each value of the sample, and loses no digit of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.proposal.field_types import TypedField, evidence
from backfill_assets_tests.proposal.sampled_texts import profile_of, typed_in_one_sample, typed_of
from backfill_assets_tests.strategies.how_many import drawn

pytestmark = pytest.mark.data

PROPOSED: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "whole numbers": ((1, -20, 999_999_999_999_999_999), "bigint"),
    "a number with more digits than a bigint": ((1, 10**20), "decimal(38,0)"),
    "names of digits": (("1001", "1002"), "string"),
    "names of digits with zeros before": (("01067", "80331"), "string"),
    "amounts": ((1, 12.5, 0.25), "decimal(18,2)"),
    "amounts as text": (("12.50", "3", "-0.1"), "decimal(18,2)"),
    "more digits than usual": (("12345678901234567.125",), "decimal(38,3)"),
    "what a program computed": ((1 / 3, 0.1 + 0.2, 2), "double"),
    "a small number": ((1e-9, 2), "decimal(18,9)"),
    "a smaller one": ((1e-12, 2), "double"),
    "an exponent as text": (("1e-9", "2"), "double"),
    "digits that a double would lose": (("0.1234567890123456789", "1"), "decimal(38,19)"),
    "more digits than any number has": ((f"{'7' * 30}.{'7' * 12}",), "string"),
    "not a number": (("NaN", "1.5"), "double"),
    "yes and no": ((True, False), "boolean"),
    "days": (("2026-01-05", "2024-02-29"), "date"),
    "no days": (("2026-01-05", "2026-02-30"), "string"),
    "moments": (("2026-01-05T10:00:00Z", "2026-01-05T10:00:00.123+0200"), "timestamp"),
    "moments without an offset": (("2026-01-05 10:00:00", "2026-01-05T10:00:00"), "string"),
    "days and moments": (("2026-01-05", "2026-01-05T10:00:00Z"), "string"),
    "lists of texts": ((["a"], [], ["b", "1"]), "array<string>"),
    "lists of numbers": (([1, 2], []), "array<bigint>"),
    "lists of amounts": (([1.25], [2]), "array<decimal(38,18)>"),
    "lists of lists": (([[1]],), "string"),
    "objects": (({"a": 1}, {}), "string"),
    "nothing": ((None, None), "string"),
}


@pytest.fixture(scope="module")
def typed() -> dict[str, TypedField]:
    """All of :data:`PROPOSED` and :data:`ASKED` are fields of one sample."""
    return typed_in_one_sample({what: values for what, (values, _) in {**PROPOSED, **ASKED}.items()})


@pytest.mark.parametrize("what", PROPOSED)
def test_what_is_proposed(typed: Mapping[str, TypedField], what: str) -> None:
    assert typed[what].type == PROPOSED[what][1]


ASKED: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "no offset": (("2026-01-05 10:00:00",), "in which zone are these moments?"),
    "days as in Germany": (("05.01.2026", "1.2.26"), "are these days?"),
    "days of digits": ((20260105, 20251231), ""),
    "days of digits as text": (("20260105", "20251231"), "are these days?"),
    "a comma": (("1,50", "1.234,50"), "are these numbers?"),
    "no value": ((None, None), "what is it? It has no value in the sample"),
    "a word for none": ((1.5, "NA", 2), 'does "NA" say that there is no value? It is no number'),
    "nothing for none": (("2026-01-05", ""), 'does "" say that there is no value? It is no date'),
    "addresses": (("a@b.de", "c@d.org"), "is addresses personal? Values look like e-mail addresses."),
    "within objects": (({"mail": "a@b.de"},), "is within objects personal? Values have e-mail addresses in them."),
    "machines": (("10.0.0.1", "10.0.0.2"), "is machines personal? Values look like IP addresses."),
    "free text": (("any", "thing"), ""),
}


@pytest.mark.parametrize("what", ASKED)
def test_what_is_asked(typed: Mapping[str, TypedField], what: str) -> None:
    said, questions = ASKED[what][1], typed[what].questions
    assert any(said in each for each in questions) if said else not questions


def test_names_of_persons_become_tokens_unless_a_person_says_otherwise() -> None:
    persons, others = ("email", "customer_name", "PhoneNumber", "client_ip", "name"), ("product_name", "ship", "shop")
    found = typed_in_one_sample(dict.fromkeys((*persons, *others, "description"), ("x", "y")))
    assert {name for name, each in found.items() if each.personal} == set(persons)


def test_evidence_has_no_value_that_may_be_personal() -> None:
    """It is a comment in a file that is committed."""
    assert "ann" not in evidence(typed_of("ann@b.de", "ann@b.de", "ben@b.de"), 3)
    assert '"red", "blue"' in evidence(typed_of("red", "red", "blue", name="colour"), 3)


# ------------------------------------------------------------------ generated

DIGITS = st.from_regex(r"[+-]?[0-9]{1,22}([.][0-9]{1,20})?", fullmatch=True)
TEXTS: Mapping[str, st.SearchStrategy[Any]] = {
    "whole": st.integers(-(10**20), 10**20),
    "digits": DIGITS,
    "floats": st.floats(allow_nan=False, allow_infinity=False),
    "exponents": st.from_regex(r"[0-9][.][0-9]{1,17}e-?[0-9]{1,2}", fullmatch=True),
    "days": st.dates().map(str),
    "almost days": st.from_regex(r"20[0-9]{2}-[01][0-9]-[0-3][0-9]", fullmatch=True),
    "moments": st.from_regex(r"20[0-9]{2}-0[1-9]-2[0-8]T[0-2][0-9]:[0-5][0-9]:00(Z|[+-]0[0-9]:?30)", fullmatch=True),
    "words": st.sampled_from(["", "NA", "true", "false", "null", "NaN", "x", "1", "01"]),
}


def _is_read(text: str, kind: str) -> bool:
    """Whether ``kind`` has a value that is what ``text`` says, to the last digit."""
    if decimal := re.fullmatch(r"decimal\((\d+),(\d+)\)", kind):
        precision, scale = map(int, decimal.groups())
        before, _, behind = text.lstrip("+-").partition(".")
        return len(before) <= precision - scale and len(behind) <= scale
    return _READ[kind](text)


def _is_double(text: str) -> bool:
    """A number is written in at most 17 digits that lead to the same one; more would be lost."""
    if text in ("NaN", "Infinity", "-Infinity"):
        return True
    exact, found = Decimal(text), float(text)
    digits = len(exact.as_tuple().digits)
    return digits <= 15 or Decimal(repr(found)) == exact


_READ: Mapping[str, Callable[[str], bool]] = {
    "string": lambda _: True,
    "bigint": lambda text: abs(int(text)) < 10**18,
    "boolean": lambda text: text in ("true", "false"),
    "date": lambda text: bool(date.fromisoformat(text)),
    "timestamp": lambda text: datetime.fromisoformat(text).tzinfo is not None,
    "double": _is_double,
}


@settings(max_examples=drawn(8), deadline=None)
@given(
    st.lists(st.one_of(*TEXTS.values()) | st.none(), min_size=1, max_size=5)
    | st.sampled_from(list(TEXTS)).flatmap(lambda name: st.lists(TEXTS[name], min_size=1, max_size=5))
)
def test_what_is_proposed_reads_each_value_and_loses_no_digit(values: list[Any]) -> None:
    """As a type that is as narrow as its values: text is what is left."""
    typed = typed_of(*values)
    texts = [each if isinstance(each, str) else f"{Decimal(json.dumps(each)):f}" for each in values if each is not None]
    assert all(_is_read(text, typed.type) for text in texts)
    assert typed.nullable == (len(texts) < len(values))


def test_profiles_count_what_is_there() -> None:
    seen = profile_of(1, 2.5, "x", None, True)
    assert (seen.present, seen.different) == (4, 4)
    assert seen.kinds == {"number": 2, "text": 1, "boolean": 1}
    assert (seen.before, seen.behind) == (1, 1)
