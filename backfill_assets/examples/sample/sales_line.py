from __future__ import annotations

from collections.abc import Iterable
from datetime import date

import numpy as np
from numpy.typing import NDArray

from backfill_assets.examples.sample.references import FIRST_PRODUCT, PRODUCTS

FIELDS = (
    "household_id",
    "store_id",
    "basket_id",
    "product_id",
    "quantity",
    "sales_value",
    "retail_disc",
    "coupon_disc",
    "coupon_match_disc",
    "transaction_timestamp",
    "currency",
    "updated_at",
)
Row = tuple[str, ...]
CURRENCIES = {"USD": 0.40, "EUR": 0.25, "GBP": 0.15, "JPY": 0.10, "CHF": 0.10}
LINES_PER_BASKET = 9

_TEMPLATE = "{" + ",".join(f'"{name}":"%s"' for name in FIELDS) + "}"
_BASKETS_A_DAY = 10_000_000
_STORES = 457
_HOUSEHOLDS = 2_469


def lines(rows: Iterable[Row]) -> list[str]:
    return [_TEMPLATE % row for row in rows]


def money(cents: Iterable[int]) -> list[str]:
    """Amounts are not negative."""
    return [f"{amount // 100}.{amount % 100:02d}" for amount in cents]


def sound_rows(day: date, count: int, seed: int) -> list[Row]:
    """Each (basket, product) is unique in history; days are independent."""
    rng = np.random.default_rng([seed, day.toordinal()])
    of_basket = np.arange(count) // LINES_PER_BASKET
    baskets = -(-count // LINES_PER_BASKET)
    seconds = np.sort(rng.integers(0, 86_400, baskets))[of_basket]
    currencies = rng.choice(list(CURRENCIES), baskets, p=list(CURRENCIES.values()))[of_basket]
    first_product = rng.integers(0, PRODUCTS, baskets)[of_basket]
    products = FIRST_PRODUCT + (first_product + 919 * (np.arange(count) % LINES_PER_BASKET)) % PRODUCTS
    cents = 1 + np.minimum(rng.lognormal(5.4, 0.9, count), 1e7).astype(np.int64)
    micros = rng.integers(0, 500_000, count)
    columns = (
        _texts(rng.integers(1, _HOUSEHOLDS + 1, baskets)[of_basket]),
        _texts(rng.integers(1, _STORES + 1, baskets)[of_basket]),
        _texts(day.toordinal() * _BASKETS_A_DAY + of_basket),
        _texts(products),
        _texts(rng.integers(1, 6, count)),
        _amounts(cents, currencies == "JPY"),
        money(rng.choice([0, 0, 0, 10, 25, 50], count).tolist()),
        money(rng.choice([0, 0, 0, 0, 0, 100], count).tolist()),
        money(np.zeros(count, np.int64).tolist()),
        [f"{day}T{n // 3600:02d}:{n // 60 % 60:02d}:{n % 60:02d}Z" for n in seconds.tolist()],
        currencies.tolist(),
        [f"{day}T23:59:59.{n:06d}Z" for n in micros.tolist()],
    )
    return list(zip(*columns, strict=True))


def _amounts(cents: NDArray[np.int64], in_yen: NDArray[np.bool_]) -> list[str]:
    texts = zip(money(cents.tolist()), _texts(cents), in_yen.tolist(), strict=True)
    return [whole if yen else text for text, whole, yen in texts]


def _texts(numbers: NDArray[np.int64]) -> list[str]:
    return [str(number) for number in numbers.tolist()]
