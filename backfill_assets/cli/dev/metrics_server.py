"""``python -m backfill_assets.cli.dev.metrics_server PORT``: serves figures to Prometheus, made for each scrape."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

from backfill_assets.answers.metrics import ClosedCount
from backfill_assets.cli.prometheus_text import current_text
from backfill_assets.errors import BackfillError
from backfill_assets.spark.connect_server import LOOPBACK

_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PATHS = ("/", "/metrics")


def metrics_server(text: Callable[[], bytes] | None = None, port: int = 0) -> ThreadingHTTPServer:
    one_at_a_time = Lock()
    now: Callable[[], bytes] = text or partial(current_text, ClosedCount())

    class Scrape(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.partition("?")[0] not in _PATHS:
                self.send_error(HTTPStatus.NOT_FOUND, "Not here", "Prometheus asks for /metrics.")
                return
            try:
                with one_at_a_time:
                    status, body = HTTPStatus.OK, now()
            except BackfillError as error:  # Prometheus shows the target as down
                status, body = HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n".encode()
                print(error, file=sys.stderr, flush=True)
            self.send_response(status)
            self.send_header("Content-Type", _TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return ThreadingHTTPServer((LOOPBACK, port), Scrape)


if __name__ == "__main__":
    with metrics_server(port=int(sys.argv[1])) as server:
        server.serve_forever()
