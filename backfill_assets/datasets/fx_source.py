"""The source ``fx_rates``: one line a currency and day of publication."""

from __future__ import annotations

from backfill_assets.model.declaration import Source

FX_RATES = Source(
    name="fx_rates",
    event_day_field="rate_day",
    key_fields=("currency",),
    version_field="updated_at",
    fields=("currency", "rate_day", "rate", "updated_at"),
    types={"rate_day": "date", "rate": "decimal(18,6)", "updated_at": "timestamp"},
)
