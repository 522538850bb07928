"""The rule that the page on one's own data shows works like any other."""

from __future__ import annotations

from decimal import Decimal

import pytest

from backfill_assets.model.declaration import DayFacts
from backfill_assets_tests.quality.few_zeros import FewZeros

RULE = FewZeros("quantity", at_most=Decimal("0.1"))


def test_it_is_described_and_judged() -> None:
    assert (RULE.name, RULE.description) == ("few_zeros_quantity", "No more than a share of a column is zero.")
    for zeros, passed in ((1, True), (2, False)):
        found = RULE.judge(DayFacts(own={"rows": 10, "zeros_quantity": zeros}))
        assert (found.passed, found.observed) == (passed, f"{zeros} of 10 rows with quantity 0")


@pytest.mark.data
def test_it_is_measured() -> None:
    import ibis

    rows = ibis.memtable({"quantity": [0, 1, 0, 2]})
    measured = rows.aggregate(**{name: made(rows) for name, made in RULE.measure().items()})
    assert measured.to_pyarrow().to_pylist() == [{"zeros_quantity": 2}]
