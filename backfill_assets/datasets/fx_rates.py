"""The dataset ``fx_rates``: the European Central Bank's daily reference rates, on the days it publishes any."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from backfill_assets.datasets import fx_v1 as v1
from backfill_assets.datasets.fx_contracts import BronzeFxRates
from backfill_assets.datasets.fx_source import FX_RATES
from backfill_assets.model.declaration import Dataset, Reads, Version
from backfill_assets.model.landed import landed_steps
from backfill_assets.model.rules import ArrivedWithin

FX_STEPS = landed_steps(
    FX_RATES,
    BronzeFxRates,
    rows="reference rates",
    key=("currency",),
    versions=(Version("v1", "Newest version of each rate.", (Reads("raw_fx_rates"),), v1.bronze),),
    current="v1",
    most_rows=10_000,
    tolerated_rejects=2,
    # The sales of a day are converted with the rates of that day: a later rate finds them converted with an older one.
    arrives=ArrivedWithin(days=1, at_most=Decimal(0)),
)

FX_DATASET = Dataset(
    name="fx_rates",
    description="Reference rates of currencies against the euro.",
    owners=("team:retail-data",),
    # The sales begin on 2017-01-01, which may need a rate published up to eight days before.
    first_day=date(2016, 12, 24),
    steps=FX_STEPS,
)
