"""The component of ``dg`` is the code location of the datasets that its file or its project names."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

import backfill_assets
from backfill_assets.defs.component import BackfillAssets
from backfill_assets.errors import BackfillError, InvalidRequest

DATASETS = "backfill_assets.examples.datasets.sea_temperatures"


def _assets(component: BackfillAssets) -> set[str]:
    defs = component.build_defs(dg.ComponentTree.for_test().load_context)
    return {spec.key.to_user_string() for spec in defs.resolve_all_asset_specs()}


def test_the_project_names_the_datasets_unless_the_file_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bare").mkdir()
    monkeypatch.chdir(tmp_path / "bare")
    with pytest.raises(InvalidRequest, match="names no datasets") as refused:
        _assets(BackfillAssets())
    assert "datasets: shop.datasets" in str(refused.value.hint)
    by_file = _assets(BackfillAssets(datasets=DATASETS))
    (tmp_path / "pyproject.toml").write_text(f'[tool.backfill]\ndatasets = "{DATASETS}"\n')
    monkeypatch.chdir(tmp_path)
    assert _assets(BackfillAssets()) == by_file >= {"start_here", "report_sea_temperature"}
    with pytest.raises(BackfillError, match="no_such_shop"):
        _assets(BackfillAssets(datasets="no_such_shop.datasets"))


def test_it_is_known_by_the_name_of_the_package_alone() -> None:
    assert backfill_assets.BackfillAssets is BackfillAssets
    assert "BackfillAssets" in dir(backfill_assets)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = backfill_assets.no_such_name
