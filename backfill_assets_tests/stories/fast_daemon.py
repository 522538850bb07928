"""``dagster-daemon`` that looks at backfills and sensors every second: a test does not wait half a minute for them."""

from __future__ import annotations

from dagster._daemon import cli, controller, sensor

from backfill_assets.defs.dagster_internals import look_at_backfills_often

if __name__ == "__main__":
    vars(sensor)["MIN_INTERVAL_LOOP_TIME"] = 1
    look_at_backfills_often(controller, seconds=1)
    cli.main()
