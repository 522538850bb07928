"""Sound synthetic sales: many currencies, every value valid, every (basket, product) once in all of history."""

from __future__ import annotations

from datetime import date

import numpy as np
from numpy.typing import NDArray

from backfill_assets.examples.sample.sales_line import Row, money
from backfill_assets.examples.sample.synthetic_products import FIRST_PRODUCT, PRODUCTS

CURRENCIES = {"USD": 0.40, "EUR": 0.25, "GBP": 0.15, "JPY": 0.10, "CHF": 0.10}
LINES_PER_BASKET = 9

_BASKETS_A_DAY = 10_000_000
_STORES = 457
_HOUSEHOLDS = 2_469


def sound_rows(day: date, count: int, seed: int) -> list[Row]:
    """``count`` rows of ``day``, in the order of their baskets; they depend on the seed and not on other days."""
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
    """Yen have no decimals."""
    texts = zip(money(cents.tolist()), _texts(cents), in_yen.tolist(), strict=True)
    return [whole if yen else text for text, whole, yen in texts]


def _texts(numbers: NDArray[np.int64]) -> list[str]:
    return [str(number) for number in numbers.tolist()]
