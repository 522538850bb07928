"""A real S3-compatible server on the loopback interface, in a process of its own, for one test session."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import Any

from backfill_assets.spark.connect_server import LOOPBACK, answers, free_port

BUCKET = "lake"


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """The variables that lead to it; its one bucket is :data:`BUCKET`, and it keeps everything in memory."""
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-m", __spec__.name, str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + 60
            while not answers(port):
                assert server.poll() is None and time.monotonic() < deadline, "the S3 server did not come up"
                time.sleep(0.1)
            variables = {
                "AWS_ENDPOINT_URL": f"http://{LOOPBACK}:{port}",
                "AWS_ACCESS_KEY_ID": "an-id-for-tests",
                "AWS_SECRET_ACCESS_KEY": "a-secret-for-tests",
                "AWS_REGION": "us-east-1",
            }
            with closing(HTTPConnection(LOOPBACK, port)) as connection:
                connection.request("PUT", f"/{BUCKET}")
                assert connection.getresponse().status == 200
            yield variables
        finally:
            server.terminate()


def serve(port: int) -> None:
    """Answer one request at a time: moto looks whether an object is there, and then writes, in two steps."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import run_simple

    app, one_at_a_time = DomainDispatcherApplication(create_backend_app), threading.Lock()

    def answer(environ: Any, start_response: Any) -> Any:
        with one_at_a_time:
            return app(environ, start_response)

    run_simple(LOOPBACK, port, answer, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
