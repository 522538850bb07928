"""``python -m backfill_assets.cli.dev.letters PORT`` serves letters: no browser opens files from Dagster's pages."""

from __future__ import annotations

import re
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from backfill_assets.lakehouse.plans import kept_page
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.settings import Settings
from backfill_assets.spark.connect_server import LOOPBACK

_PLAN = re.compile(r"/(plan-[0-9a-f]{16})")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def letter_server(storage: Storage, port: int = 0) -> ThreadingHTTPServer:
    """Serves each plan's letter at ``/<plan id>``; port 0 takes a free one."""

    class LetterRequest(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            plan = _PLAN.fullmatch(self.path)
            page = kept_page(storage, plan[1]) if plan else None
            if page is None:
                self.send_error(HTTPStatus.NOT_FOUND, "No letter is kept here", "backfill diff PLAN --html writes one.")
                return
            self.send_response(HTTPStatus.OK)
            for name, value in (
                ("Content-Type", "text/html; charset=utf-8"),
                ("Content-Length", str(len(page))),
                ("Content-Security-Policy", _POLICY),
                ("Cache-Control", "no-store"),
            ):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None:
            pass

    return ThreadingHTTPServer((LOOPBACK, port), LetterRequest)


if __name__ == "__main__":
    with letter_server(Storage(str(Settings.from_environment().lakehouse)), int(sys.argv[1])) as server:
        server.serve_forever()
