"""Parts of a record are landed fields that no value has, under names of their own."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from backfill_assets.errors import InvalidRequest
from backfill_assets.model.contract import Contract, Field
from backfill_assets.model.record_parts import Header, Key, RecordTime, header_of, is_part, words_of
from backfill_assets_tests.stream.recorded_sales import RecordedSale, recorded


def test_a_name_says_which_part_it_is() -> None:
    parts = (Key(), RecordTime(), Header("till"))
    assert all(is_part(each.field) for each in parts) and not is_part("record") and not is_part("till")
    assert [header_of(each.field) for each in parts] == [None, None, "till"]
    assert words_of(["record header till", "household_id"]) == ["till", "household_id"]


def test_parts_of_a_record_are_fields_that_no_value_has() -> None:
    source = recorded().source
    assert source.value_fields == ("sold_at",)
    assert source.record_fields == ("record key", "record header till", "record header household_id", "record time")
    assert source.columns == ("sale", "till", "household", "sent_at", "sold_at")
    assert (source.key_columns, source.version_field) == (("sale",), "sent_at")
    assert source.personal_fields == {"record header household_id": "household"}


@pytest.mark.parametrize("also", [{"landed": "w"}, {"personal": "w"}, {"rescued": True}, {"joined": ("sale",)}])
def test_a_part_of_a_record_is_landed_by_no_other_name(also: dict[str, object]) -> None:
    twice = {"ward": Field(record=Key(), **also), "__annotations__": {"ward": T.StringType}}  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="lands ward by two names"):
        type("Twice", (Contract,), twice)


class Dated(RecordedSale):
    """A record's time is no date."""

    sent_at: T.DateType = Field(  # type: ignore[assignment]
        version=True, record=RecordTime(), description="When."
    )


def test_the_time_of_a_record_is_a_time_and_rejected_events_go_to_a_topic() -> None:
    with pytest.raises(InvalidRequest, match="the time of a record is a date"):
        recorded(row=Dated).dataset()
    with pytest.raises(InvalidRequest, match="'of sales' is no name of a topic"):
        recorded("of sales").dataset()
