"""A dashboard on a port of its own, and a client that keeps cookies as a browser does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn
from starlette.types import ASGIApp


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """Serve an app; yield its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1, ws="none")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://localhost:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


class Visitor(httpx.Client):
    """Loads pages and sends their forms."""

    def page(self, path: str, code: int = 200) -> str:
        """Load a page as a browser does."""
        answer = self.get(path, headers={"accept": "text/html"})
        assert answer.status_code == code, answer.text
        assert "Traceback" not in answer.text
        return answer.text

    def act(self, action: str, *, code: int = 200, **fields: str) -> str:
        """Send a form of the overview; return the page to which it leads."""
        found = self.csrf()
        form: dict[str, Any] = {"csrf": found, "back": "/", **fields}
        answer = self.post(f"/act/{action}", data=form, follow_redirects=True)
        assert answer.status_code == code, answer.text
        assert "Traceback" not in answer.text
        return answer.text

    def csrf(self) -> str:
        """Return the field that a form of this visitor has."""
        if "fairqueue_csrf" not in self.cookies:
            self.get("/sign-in")
        return self.cookies["fairqueue_csrf"]
