"""Without the extra ``examples`` a command says what to install."""

from __future__ import annotations

import pytest

from backfill_assets.errors import InvalidRequest
from backfill_assets.examples.sample.references import packaged_file


def test_a_package_that_is_not_installed_is_named_with_the_extra_that_brings_it() -> None:
    with pytest.raises(InvalidRequest, match=r"not_there.*\n.*pip install 'backfill-assets\[examples\]'"):
        packaged_file("not_there", "rows.parquet")
    assert packaged_file("currency_converter", "eurofxref-hist.zip").is_file()
