"""What every landed dataset has in common: where a row is from, a line of a file or an event of a topic."""

from __future__ import annotations

import pytest

from backfill_assets.model.contract import Contract
from backfill_assets.model.landed import BronzeColumns, QuarantineColumns, RawColumns


@pytest.mark.parametrize("columns", [RawColumns, QuarantineColumns, BronzeColumns])
def test_the_first_event_of_a_partition_has_offset_0(columns: type[Contract]) -> None:
    """Lines count from 1, offsets from 0: a contract that asks for more would hold the first event back."""
    line, file = columns.fields()["source_line"], columns.fields()["source_file"]
    assert line.checks == {"ge": 0}
    assert "offset, from 0" in str(line.description) and "kafka:<topic>/<partition>" in str(file.description)
