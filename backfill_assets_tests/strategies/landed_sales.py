"""Landed sales for tests: one sound line, variations of it, and files of them where a source would put them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from hypothesis import strategies as st

SALE: Mapping[str, str] = {
    "household_id": "900",
    "store_id": "330",
    "basket_id": "31198570044",
    "product_id": "1095275",
    "quantity": "1",
    "sales_value": "0.50",
    "retail_disc": "0.00",
    "coupon_disc": "0.00",
    "coupon_match_disc": "0.00",
    "transaction_timestamp": "2017-03-01T11:53:26Z",
    "currency": "USD",
    "updated_at": "2017-03-01T23:59:59Z",
}

versions = st.builds(
    lambda second, cents: {
        **SALE,
        "updated_at": f"2017-03-01T23:00:{second:02d}Z",
        "sales_value": f"{cents // 100}.{cents % 100:02d}",
    },
    second=st.integers(0, 3),
    cents=st.integers(0, 300),
)
"""Versions of one transaction on one day; equal moments, and equal content, are common."""


def sale(**changes: str | None) -> dict[str, str | None]:
    return {**SALE, **changes}


def land(root: Path, source: str, day: str, name: str, lines: Iterable[str | Mapping[str, object]]) -> str:
    """Write a landed file of lines (text as it is, mappings as JSON) and return its path."""
    path = root / source / day / f"{name}.jsonl.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()))
    return str(path)


def land_key(root: Path, key: str) -> str:
    path = root / "token.key"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{key}\n")
    return str(path)
