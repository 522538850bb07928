"""``dagster-daemon`` that looks at backfills and sensors every second: a test does not wait half a minute for them."""

from __future__ import annotations

from dagster._daemon import cli, sensor

from backfill_assets.defs.instance import fast_daemon as eager_daemon

if __name__ == "__main__":
    vars(eager_daemon)["EVERY_SECONDS"] = vars(sensor)["MIN_INTERVAL_LOOP_TIME"] = 1
    eager_daemon.shorten_interval()
    cli.main()
