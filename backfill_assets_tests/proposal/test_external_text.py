"""The proposal of a table of others is Python and formatted, whatever its columns and its place are called."""

from __future__ import annotations

import ast
from datetime import date

from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.proposal.declaration_text import Proposal
from backfill_assets.proposal.external_text import TableOfOthers, external_declaration
from backfill_assets.proposal.field_types import TypedField
from backfill_assets.proposal.profile import FieldProfile
from backfill_assets.proposal.questions import questions_in
from backfill_assets.proposal.roles import Roles
from backfill_assets_tests.proposal.test_source_text import unformatted

KINDS = ("string", "tinyint", "double", "binary", "timestamp", "decimal(38,0)", "array<decimal(9,2)>", "array<float>")


def proposal_of(fields: list[TypedField], day: str, group: str = "") -> Proposal:
    asked = {"": ("which?",)} if not day else {day: ("the day?",)}
    roles = Roles(day, tuple(each.name for each in fields[:1]), "", group, asked, {})
    first = date(2026, 1, 5) if day else None
    return Proposal("shop", "corner", "3 rows of orders", 3, tuple(fields), roles, first, 3, {})


def arguments_of(text: str) -> dict[str, object]:
    """What ``ExternalTable(...)`` is given by name, and its name."""
    calls = (each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call))
    (call,) = [each for each in calls if getattr(each.func, "id", "") == "ExternalTable"]
    named = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    return {"name": ast.literal_eval(call.args[0]), **named}


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.tuples(st.text(min_size=1), st.sampled_from(KINDS)), min_size=1, max_size=5, unique_by=lambda each: each[0]
    ),
    st.text(min_size=1),
    st.booleans(),
)
def test_any_columns_and_any_place(columns: list[tuple[str, str]], location: str, is_delta: bool) -> None:
    fields = [TypedField(FieldProfile(name, 3, 3, typed=kind), kind, False) for name, kind in columns]
    group = next((name for name, kind in columns[1:] if kind == "string"), "")
    table = TableOfOthers("orders", location, is_delta, ("a\nb",), is_moment=True)
    text = external_declaration(proposal_of(fields, columns[0][0], group), table)
    assert unformatted(text, 88) == "" == unformatted(text, 120)
    written = {} if is_delta else {"written": "parquet"}
    assert arguments_of(text) == {"name": "orders", "location": location, "day": columns[0][0], **written}


def test_a_day_that_is_called_as_ours_is_not_declared_and_is_asked_for_above() -> None:
    fields = [
        TypedField(FieldProfile(name, 3, 3, typed=kind), kind, False) for name, kind in (("id", "int"), ("day", "date"))
    ]
    text = external_declaration(proposal_of(fields, "day"), TableOfOthers("orders", "/lake/orders", True))
    assert "landed_day" not in text and "the day?" in [said for _, said in questions_in(text)]
    assert "id: T.IntegerType = Field(key=True" in text


def test_without_a_day_it_is_asked_for() -> None:
    text = external_declaration(
        proposal_of([TypedField(FieldProfile("id", 3, 3, typed="int"), "int", False)], ""),
        TableOfOthers("orders", "/lake/orders", True),
    )
    assert [said for _, said in questions_in(text)][-1] == "which?" and arguments_of(text)["day"] == ""
