"""The source ``sales``: grocery transaction lines, one a basket and product, in many currencies."""

from __future__ import annotations

from backfill_assets.model.declaration import Source

_MONEY = "decimal(18,2)"

SALES = Source(
    name="sales",
    event_day_field="transaction_timestamp",
    key_fields=("basket_id", "product_id"),
    version_field="updated_at",
    fields=(
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
    ),
    types={
        "quantity": "bigint",
        "sales_value": _MONEY,
        "retail_disc": _MONEY,
        "coupon_disc": _MONEY,
        "coupon_match_disc": _MONEY,
        "transaction_timestamp": "timestamp",
        "updated_at": "timestamp",
    },
    personal_fields={"household_id": "household_token"},
    supersession_window_days=7,
)
