"""Drives headless Chromium over the WebDriver protocol with the standard library alone.

Requires Debian's packages `chromium` and `chromium-driver`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


class Missing(AssertionError):
    """A page lacks something that it must show."""


class Chromium:
    """A browser window; a context manager that starts and ends its processes.

    Args:
        width: width of the window in pixels.
        height: height of the window in pixels.
        patience: seconds to wait for a page to show something.
    """

    def __init__(self, width: int = 1600, height: int = 1000, patience: float = 120.0) -> None:
        self.width, self.height, self.patience = width, height, patience

    @staticmethod
    def is_installed() -> bool:
        """Whether browser and driver are installed."""
        return bool(shutil.which("chromium") and shutil.which("chromedriver"))

    def __enter__(self) -> Chromium:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        self._driver = subprocess.Popen(
            ["chromedriver", f"--port={port}", "--log-level=SEVERE"], stdout=subprocess.DEVNULL, start_new_session=True
        )
        self._url = f"http://127.0.0.1:{port}"
        try:
            self._wait_for_driver()
            options = {
                "binary": shutil.which("chromium"),
                "args": [*ARGUMENTS, f"--window-size={self.width},{self.height}"],
            }
            chrome = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            capabilities = {"alwaysMatch": {"browserName": "chrome", **chrome}}
            self._url += f"/session/{self._post('/session', {'capabilities': capabilities})['sessionId']}"
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._request("DELETE", "", None)
        finally:
            self._end()

    def open(self, url: str) -> None:
        """Loads a page."""
        self._post("/url", {"url": "about:blank"})  # forces a reload if only the fragment differs
        self._post("/url", {"url": url})

    def run(self, script: str, *arguments: object) -> Any:
        """Runs the body of a JavaScript function and returns its value."""
        return self._post("/execute/sync", {"script": script, "args": list(arguments)})

    def text(self) -> str:
        """The visible text of the page, without placeholders of input fields."""
        return str(self.run("return document.body ? document.body.innerText : ''"))

    def wait_for(self, *texts: str) -> None:
        """Waits until the page shows all texts.

        Raises:
            Missing: a text does not appear in time.
        """
        deadline = time.monotonic() + self.patience
        while absent := [text for text in texts if text not in self.text()]:
            if time.monotonic() > deadline:
                raise Missing(f"{self.run('return location.href')}: missing {', '.join(map(repr, absent))}")
            time.sleep(0.2)

    def wait_until(self, script: str, what: str) -> Any:
        """Waits until a script's value is true, and returns it.

        Raises:
            Missing: it does not become true in time.
        """
        deadline = time.monotonic() + self.patience
        while not (value := self.run(script)):
            if time.monotonic() > deadline:
                raise Missing(f"{self.run('return location.href')}: missing {what}")
            time.sleep(0.2)
        return value

    def type(self, selector: str, text: str) -> None:
        """Types a text into an input field in place of its content, or into the search field of a list of choices.

        Raises:
            Missing: no such field appears in time.
        """
        self.wait_until(f"return !!document.querySelector({json.dumps(selector)})", f"field {selector}")
        (element,) = self._post("/element", {"using": "css selector", "value": selector}).values()
        if not self.run(f"return document.querySelector({json.dumps(selector)}).readOnly"):
            self._post(f"/element/{element}/clear", {})
        self._post(f"/element/{element}/value", {"text": text})

    def press(self, key: str) -> None:
        """Presses and releases a key; keys without a letter have WebDriver code points, such as `\\ue007` (enter)."""
        strokes = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        self._post("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]})

    def console(self) -> list[str]:
        """Messages on the console since the last call, including failed loads."""
        return [str(entry["message"]) for entry in self._post("/se/log", {"type": "browser"})]

    def emulate(self, *, scheme: str, width: int, height: int) -> None:
        """Emulates a device of a size in pixels that prefers the colour scheme `light` or `dark`."""
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        for command, params in (("setEmulatedMedia", media), ("setDeviceMetricsOverride", size)):
            self._post("/goog/cdp/execute", {"cmd": f"Emulation.{command}", "params": params})

    def screenshot(self, path: Path) -> None:
        """Writes the content of the window as PNG."""
        path.write_bytes(base64.b64decode(self._request("GET", "/screenshot", None)))

    def _end(self) -> None:
        """Kills driver and browser, which are one process group; a driver that was killed alone leaves its browser."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._driver.pid, signal.SIGKILL)
        self._driver.wait()

    def _wait_for_driver(self) -> None:
        deadline = time.monotonic() + self.patience
        while True:
            try:
                if self._request("GET", "/status", None)["ready"]:
                    return
            except urllib.error.URLError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.1)

    def _post(self, path: str, body: object) -> Any:
        return self._request("POST", path, body)

    def _request(self, method: str, path: str, body: object) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._url}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"chromedriver rejected {method} {path}: {error.read().decode()[:500]}") from error
