"""What Arrow makes of expressions over rows of raw that a source took back, or that knew fewer fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pyarrow as pa

from backfill_assets.model.declaration import Source
from backfill_assets.model.deletion import DELETION
from backfill_assets.model.measure import Both, ContentHash, Fulfils, HasValue
from backfill_assets.quality.arrow_rows import ArrowRows

DAY = date(2017, 3, 1)
EARLIER = Source("sea", "day", ("sensor",), "sent", ("sensor", "sent"))
SOURCE = replace(EARLIER, fields=("sensor", "sent", "salinity"), rescued_fields=("salinity",))


def rows(**columns: Sequence[object]) -> ArrowRows:
    return ArrowRows(pa.RecordBatch.from_pydict(columns), DAY)


def test_a_deletion_of_a_marker_is_no_received_row_that_was_taken_back() -> None:
    deletes = Both(Fulfils("record_kind", "eq", DELETION), HasValue("source_file"))
    raw = rows(record_kind=[DELETION, DELETION, "received"], source_file=["sales/a", None, "sales/a"])
    assert raw.value(deletes).to_pylist() == [True, False, False]


def test_the_content_hash_is_over_the_fields_that_a_row_knew() -> None:
    """The first row knew all fields, the second those of before; of the third it is not known."""
    values = {"sensor": ["a", "b", "c"], "sent": ["1", "2", "3"], "salinity": ["7", "8", "9"]}
    whole = rows(**values).value(ContentHash(replace(SOURCE, rescued_fields=()), "values")).to_pylist()
    before = rows(**values).value(ContentHash(EARLIER, "values")).to_pylist()
    assert not set(whole) & set(before)
    landed = rows(**values, content_hash=[whole[0], before[1], 5])
    assert landed.value(ContentHash(SOURCE, "values")).to_pylist() == [whole[0], before[1], whole[2]]
