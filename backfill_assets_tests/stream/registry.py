"""A schema registry of a test: the two endpoints that its clients need to write events and to read them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from backfill_assets_tests.web_server import served


@dataclass
class FakeRegistry:
    """Ids are from 1; ``status`` is what it answers instead, 0 being what it should."""

    url: str = ""
    schemas: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    status: int = 0

    def answer(self, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        self.asked.append(path)
        if self.status:
            return self.status, {"error_code": self.status, "message": "by order of a test"}
        if path.startswith("/subjects/"):
            schema = json.loads(body)
            if schema not in self.schemas:
                self.schemas.append(schema)
            return 200, {"id": self.schemas.index(schema) + 1}
        number = int(path.partition("?")[0].rpartition("/")[2])
        if not 0 < number <= len(self.schemas):
            return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
        return 200, self.schemas[number - 1]


@contextmanager
def fake_registry() -> Iterator[FakeRegistry]:
    registry = FakeRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = registry.answer(self.path, body)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    with served(Handler) as registry.url:
        yield registry
