"""Texts that are lists in JSON, and those that nearly are, as plain Python reads them."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from backfill_assets.judge.engine import engine
from backfill_assets.model import landed_values
from backfill_assets_tests.model.test_landed_values import LISTS
from backfill_assets_tests.strategies import values_by_python
from backfill_assets_tests.strategies.how_many import drawn

KINDS = tuple(f"array<{item}>" for item in ("string", "bigint", "double", "decimal(6,2)", "boolean", "date"))
SIGNS = '0123456789+-.TZ: []",\\nu{}eE\t\n'


def nearly_lists(seed: int, count: int) -> list[str]:
    """Lists with a sign or two more, or less."""
    chance = random.Random(seed)

    def changed(text: str) -> str:
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(len(text) + 1)
            text = text[:place] + chance.choice(("", chance.choice(SIGNS))) + text[place + chance.randrange(2) :]
        return text

    return [changed(chance.choice([each for each in LISTS if len(each) < 200])) for _ in range(count)]


@pytest.mark.data
@pytest.mark.parametrize("seed", range(drawn(1)))
def test_a_text_is_a_list_if_python_reads_it_as_one(seed: int) -> None:
    """And it counts alike, item by item; about each tenth of them is one."""
    import ibis

    texts = [*LISTS, *nearly_lists(seed, 2_000)]
    rows = ibis.memtable(pa.table({"n": range(len(texts)), "text": pa.array(texts, pa.string())}))
    with engine(threads=1) as connection:
        for kind in KINDS:
            counted = landed_values.canonical(landed_values.parsed(rows.text, kind), kind)
            found = connection.to_pyarrow(rows.select("n", counted=counted).order_by("n"))["counted"].to_pylist()
            values = [values_by_python.value_of(text, kind) for text in texts]
            assert found == [values_by_python.canonical(value, kind) for value in values], kind
            assert sum(value is not None for value in values) > len(texts) / 100
