"""Of the rows of one proposed key no two are equal in the proposed version, on each day: a sample shows no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.proposal.field_types import TypedField
from backfill_assets.proposal.profile import DaysSeen, FieldProfile
from backfill_assets.proposal.roles import Roles, proposed_roles
from backfill_assets_tests.proposal.sampled_texts import RowsInPython, day_of

FIRST = date(2026, 1, 5)
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def typed(name: str, kind: str, rows: Sequence[Mapping[str, Any]]) -> TypedField:
    values = [row[name] for row in rows if row[name] is not None]
    return TypedField(FieldProfile(name, len(values), len({*values}), typed=kind), kind, len(values) < len(rows))


def roles_of(
    types: Mapping[str, str], rows: Sequence[Mapping[str, Any]], days: Mapping[str, DaysSeen] | None = None
) -> Roles:
    """What is proposed for a dataset of orders."""
    counted = RowsInPython(rows)
    fields = [typed(name, kind, rows) for name, kind in types.items()]
    times = {each.name: counted.days(each.name) for each in fields if each.is_time and not each.nullable}
    return proposed_roles("orders", fields, counted, {**times, **(days or {})})


ORDERS = {"order_id": "bigint", "state": "string", "ordered_at": "timestamp", "updated_at": "timestamp"}


def orders(count: int = 40) -> list[dict[str, Any]]:
    moments = [NOON + timedelta(hours=number) for number in range(count)]
    return [
        {"order_id": number, "state": "ab"[number % 2], "ordered_at": at, "updated_at": at + timedelta(minutes=5)}
        for number, at in enumerate(moments)
    ]


def test_names_and_what_differs_say_it_all() -> None:
    found = roles_of(ORDERS, orders())
    assert (found.day, found.key, found.version, found.group) == ("ordered_at", ("order_id",), "updated_at", "state")
    assert found.seen["order_id"] == "likely the key" and "order_id" not in found.questions
    assert found.questions["updated_at"] == (
        "is updated_at the version? Its name says so; no key comes twice in the sample.",
    )


def test_a_correction_shows_the_version() -> None:
    """A key that comes twice, with another moment, is one still."""
    rows = orders()
    rows.append({**rows[3], "updated_at": rows[3]["updated_at"] + timedelta(hours=1)})
    found = roles_of(ORDERS, rows)
    assert (found.key, found.version) == (("order_id",), "updated_at")
    assert found.questions["updated_at"] == (
        "is updated_at the version? It is the only one that differs between rows of equal key.",
    )


def test_a_name_that_comes_often_is_no_key_though_it_differs_with_a_moment() -> None:
    """Readings of two sensors: one is known by sensor and moment."""
    rows = [
        {"sensor_id": sensor, "measured_at": NOON + timedelta(minutes=30 * number), "celsius": number % 7}
        for number in range(40)
        for sensor in ("a", "b")
    ]
    found = roles_of({"sensor_id": "string", "measured_at": "timestamp", "celsius": "bigint"}, rows)
    assert (found.day, found.key) == ("measured_at", ("sensor_id", "measured_at"))
    assert found.questions["sensor_id"][0].startswith("are sensor_id and measured_at the key?")
    assert (
        found.version == "measured_at"
        and "which field is greater in a correction?" in found.questions["measured_at"][0]
    )


def test_what_no_field_can_be_is_asked() -> None:
    found = roles_of(
        {"price": "decimal(18,2)", "state": "string"}, [{"price": 1, "state": "a"}, {"price": 2, "state": "a"}]
    )
    assert (found.day, found.key, found.version) == ("", (), "")
    assert [each.split("?")[0] for each in found.questions[""]] == [
        "which field says the day a row belongs to",
        "what is the key",
        "what is the version",
    ]


def test_two_keys_and_two_days_are_asked_for() -> None:
    rows = [
        {**each, "invoice_id": each["order_id"] + 7, "shipped_date": FIRST, "order_date": FIRST} for each in orders()
    ]
    types = {"invoice_id": "bigint", **ORDERS, "shipped_date": "date", "order_date": "date"}
    found = roles_of(types, rows)
    assert found.key == ("order_id",) and found.day == "ordered_at"
    assert "order_date" in found.questions["ordered_at"][0]
    other = roles_of(
        {"invoice_id": "bigint", "parcel_id": "bigint", "ordered_at": "timestamp"},
        [
            {"invoice_id": each["order_id"], "parcel_id": each["order_id"], "ordered_at": each["ordered_at"]}
            for each in rows
        ],
    )
    assert other.questions["invoice_id"] == ("is invoice_id the key? parcel_id also differs in each row.",)


def test_a_day_that_lies_ahead_of_its_arrival_is_not_the_event_day() -> None:
    """Such rows would be rejected."""
    ahead = DaysSeen(FIRST, FIRST + timedelta(days=30), 9, ahead=12)
    assert roles_of(ORDERS, orders(), {"ordered_at": ahead}).day == "updated_at"


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Small tables in which much comes twice."""
    moments = st.integers(0, 60).map(lambda hours: NOON + timedelta(hours=hours))
    kinds = {
        "bigint": st.integers(0, 4),
        "string": st.sampled_from("abc"),
        "timestamp": moments,
        "date": st.integers(0, 2).map(lambda n: FIRST + timedelta(days=n)),
        "boolean": st.booleans(),
    }
    names = st.sampled_from(
        ["order_id", "item_id", "no", "state", "at", "updated_at", "order_date", "seq", "amount", "x"]
    )
    types = draw(st.dictionaries(names, st.sampled_from(list(kinds)), min_size=1, max_size=6))
    row = st.fixed_dictionaries({name: kinds[kind] for name, kind in types.items()})
    return types, draw(st.lists(row, min_size=1, max_size=12))


@settings(max_examples=60, deadline=None)
@given(tables())
def test_rows_of_a_proposed_key_differ_in_their_version(table: tuple[dict[str, str], list[dict[str, Any]]]) -> None:
    """Oracle: a dictionary of the rows that would win."""
    types, rows = table
    found = roles_of(types, rows)
    distinct = {tuple(row.items()): row for row in rows}.values()
    for name in (*found.key, found.day, found.version, found.group):
        assert not name or name in types
    if not found.key:
        assert "what is the key?" in " ".join(found.questions[""])
        return
    days = [day_of(row[found.day]) if found.day else None for row in distinct]
    keys = [(day, *(row[name] for name in found.key)) for day, row in zip(days, distinct, strict=True)]
    if len({*keys}) < len(keys):
        versions = [(key, row[found.version]) for key, row in zip(keys, distinct, strict=True)]
        assert len({*versions}) == len(versions)
        assert f"is {found.version} the version?" in " ".join(found.questions[found.version])
    assert all(types[name] != "boolean" for name in found.key)


@pytest.mark.parametrize(("rows", "asked"), [(5, True), (40, False)])
def test_of_few_rows_nearly_all_is_different(rows: int, asked: bool) -> None:
    assert ("order_id" in roles_of(ORDERS, orders(rows)).questions) is asked
