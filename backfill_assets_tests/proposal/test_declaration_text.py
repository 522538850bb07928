"""A proposal is a module that can be imported and is formatted, whatever fields are called and look like."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from types import ModuleType
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.model.contract import declared_types
from backfill_assets.model.landed_dataset import LandedDataset
from backfill_assets.proposal.declaration_text import Proposal, declaration
from backfill_assets.proposal.field_types import TypedField
from backfill_assets.proposal.profile import FieldProfile
from backfill_assets.proposal.questions import questions_in
from backfill_assets.proposal.roles import Roles
from backfill_assets_tests.proposal.test_source_text import unformatted

KINDS = ("string", "bigint", "double", "boolean", "date", "timestamp", "decimal(18,2)", "array<string>", "array<date>")
NAMES = st.sampled_from(["date", "int", "str", "T", "Field", "day", "Order No", "entries", "fields", "a" * 90, "é"])


def proposal(fields: list[TypedField], roles: Roles, **more: Any) -> Proposal:
    given = {"first_day": date(2026, 1, 5), "most_rows": 1_234_567, "ranges": {}, "said": 'a "b".csv'}
    return Proposal(name="orders", package="shop", rows=7, fields=tuple(fields), roles=roles, **{**given, **more})


@contextmanager
def imported(text: str) -> Iterator[LandedDataset]:
    module = ModuleType("proposed_orders")
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, "proposed_orders", "exec"), vars(module))  # noqa: S102 - a module that is in no file
        yield module.ORDERS
    finally:
        del sys.modules[module.__name__]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(NAMES | st.text(min_size=1), st.sampled_from(KINDS), st.booleans()),
        max_size=6,
        unique_by=lambda f: f[0].lower(),
    ),
    st.sampled_from([0, 3]),
)
def test_any_fields_make_a_sound_module(fields: list[tuple[str, str, bool]], repeated: int) -> None:
    """Each field has the type that was proposed, under the name by which it lands."""
    declared = [("the_id", "bigint", False), ("at", "timestamp", False), *fields]
    typed = [
        TypedField(
            FieldProfile(name, 5, 2, few=("x\n", "'\"")), kind, nullable, ("why\nnot?",), kind == "string" and nullable
        )
        for name, kind, nullable in {each[0].lower(): each for each in declared}.values()
    ]
    group = next((each.name for each in typed if each.type == "string" and not each.nullable), "")
    roles = Roles("at", ("the_id",), "at", group, {"": ("what?",)}, {"at": "the day"})
    text = declaration(
        proposal(typed, roles, repeated=repeated, format=("Csv", {"delimiter": ";", "columns": ("c" * 40, "d" * 40)}))
    )
    assert unformatted(text, 88) == "" == unformatted(text, 120)
    with imported(text) as dataset:
        source = dataset.dataset().steps[0].source
        assert source is not None and source.fields == tuple(each.name for each in typed)
        types = dict(zip(source.fields, declared_types(dataset._rows[0].contract).values(), strict=True))
        assert types == {each.name: each.type for each in typed}
        assert {*source.personal_fields} == {each.name for each in typed if each.personal}
    assert sum(1 for _ in questions_in(text)) == 3 + bool(repeated) + len(typed)


def test_without_a_day_a_key_or_a_version_it_can_be_imported() -> None:
    """It says what is missing where it is looked at, and the question stands in it."""
    roles = Roles("", (), "", "", {"": ("which field says the day?", "what is the key?")}, {})
    text = declaration(proposal([TypedField(FieldProfile("x", 7, 7), "string", False)], roles, first_day=None))
    with imported(text):
        assert [said for _, said in questions_in(text)][-2:] == ["which field says the day?", "what is the key?"]
    assert unformatted(text, 88) == ""
