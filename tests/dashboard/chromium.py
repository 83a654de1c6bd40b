"""A headless Chromium, steered over two pipes (the DevTools protocol), without a library."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


class Chromium:
    """One tab. What a page logs as an error or violates of its policy is kept in ``problems``."""

    def __init__(self, folder: Path) -> None:
        down_read, down_write = os.pipe()
        up_read, up_write = os.pipe()
        script = f'exec 3<&{down_read} 4>&{up_write}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "-", str(PROGRAM), *OPTIONS, f"--user-data-dir={folder}"],
            pass_fds=(down_read, up_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(down_read)
        os.close(up_write)
        self._in, self._out = os.fdopen(down_write, "wb", 0), os.fdopen(up_read, "rb")
        self._buffer, self._number, self._session = b"", 0, ""
        self.problems: list[str] = []
        self.dialogs: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser and its children."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._in.close()
        self._out.close()

    def call(self, method: str, **params: Any) -> Any:
        """Run one command; return its result."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._in.write(json.dumps(message).encode() + b"\0")
        return self._until(lambda got: got.get("id") == number).get("result")

    def _until(self, is_wanted: Callable[[Any], bool]) -> Any:
        while True:
            got = self._read()
            self._note(got)
            if is_wanted(got):
                return got

    def _read(self) -> Any:
        while b"\0" not in self._buffer:
            some = os.read(self._out.fileno(), 1 << 16)
            assert some, "Chromium has ended"
            self._buffer += some
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)

    def _note(self, got: Any) -> None:
        method, params = got.get("method"), got.get("params", {})
        if method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(params["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"]))
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(params["message"])
            self._number += 1
            answer = {"id": self._number, "method": "Page.handleJavaScriptDialog"}
            answer |= {"params": {"accept": True}, "sessionId": self._session}
            self._in.write(json.dumps(answer).encode() + b"\0")

    def window(self, width: int, height: int, *, dark: bool = False, phone: bool = False) -> None:
        """Set the size and the colours."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def load(self, url: str) -> None:
        """Load a page, and wait until it is there."""
        self.call("Page.navigate", url=url)
        self._until(lambda got: got.get("method") == "Page.loadEventFired")

    def run(self, script: str) -> Any:
        """Evaluate a script in the page; a promise is waited for."""
        found = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, condition: str, seconds: float = 20) -> None:
        """Wait until a script's value is true."""
        script = f"""new Promise((done, fail) => {{
          const until = Date.now() + {seconds * 1000};
          const look = () => {{
            if ({condition}) done(true);
            else if (Date.now() > until) fail(new Error('not within {seconds} s'));
            else setTimeout(look, 50);
          }}; look(); }})"""
        assert self.run(script)

    def press(self, key: str) -> None:
        """Press and release one key."""
        text = key if len(key) == 1 else {"Enter": "\r"}.get(key, "")
        code = 13 if key == "Enter" else 0
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                text=text if kind == "keyDown" else "",
                windowsVirtualKeyCode=code,
            )

    def follow(self, key: str) -> None:
        """Press a key, and wait for the page to which that leads."""
        self.press(key)
        self._until(lambda got: got.get("method") == "Page.loadEventFired")

    def click(self, selector: str) -> None:
        """Click what a selector finds, and wait for the page to which that leads."""
        self.run(f"document.querySelector({json.dumps(selector)}).click()")
        self._until(lambda got: got.get("method") == "Page.loadEventFired")

    def text(self) -> str:
        """Return what a visitor reads."""
        return str(self.run("document.body.innerText"))

    def picture(self, path: Path) -> None:
        """Take a screenshot of the window."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


@contextmanager
def opened(folder: Path) -> Iterator[Chromium]:
    """Start a browser, and end it."""
    browser = Chromium(folder)
    try:
        yield browser
    finally:
        browser.close()
