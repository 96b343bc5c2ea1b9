"""A scorer on this machine that speaks as Perspective does, and misbehaves when it is told to."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Service:
    """What the server was asked, and what it answers first: statuses with headers, or a body, or seconds of silence,
    or None for a right answer. Afterwards it calls a text toxic by the share of its words that are 'bad'."""

    first: list[tuple[int, dict[str, str]] | bytes | float | None] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""


@contextmanager
def serving(*first: tuple[int, dict[str, str]] | bytes | float | None) -> Iterator[Service]:
    """A server while the block runs."""
    service = Service(list(first))
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                service.asked.append(body)
                service.headers.append(dict(self.headers))
                said = service.first.pop(0) if service.first else None
            if isinstance(said, float):
                time.sleep(said)
                said = None
            if isinstance(said, tuple):
                self._answer(said[0], b'{"error": {"message": "no"}}', said[1])
            else:
                self._answer(200, answer(body) if said is None else said, {})

        def _answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            try:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                pass  # who asked has gone

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    service.url = f"http://127.0.0.1:{server.server_port}/v1alpha1/comments:analyze"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()


def answer(body: dict[str, Any]) -> bytes:
    """Scores as Perspective gives them."""
    words = body["comment"]["text"].split() or [""]
    score = sum(word == "bad" for word in words) / len(words)
    scores = {name: {"summaryScore": {"value": score, "type": "PROBABILITY"}} for name in body["requestedAttributes"]}
    return json.dumps({"attributeScores": scores}).encode()
