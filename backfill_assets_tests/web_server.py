"""A web server of a test, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def served(handler: type[BaseHTTPRequestHandler], port: int = 0) -> Iterator[str]:
    """Its address; port 0 takes a free one. Errors of a handler that hung up are not printed."""
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # it has closed the connection itself
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
