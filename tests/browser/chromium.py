"""Headless Chromium, driven over the WebDriver protocol with nothing but the standard library.

Needs Debian's packages `chromium` and `chromium-driver`.
"""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
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
    """Something that a page must show is not there."""


class Chromium:
    """A browser window; a context manager that starts and ends its processes.

    Args:
        width: of the window in pixels.
        height: of the window in pixels.
        patience: seconds for which a page is given to show something.
    """

    def __init__(self, width: int = 1600, height: int = 1000, patience: float = 120.0) -> None:
        self.width, self.height, self.patience = width, height, patience

    @staticmethod
    def is_installed() -> bool:
        """Whether browser and driver are there."""
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
            told = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            wanted = {"alwaysMatch": {"browserName": "chrome", **told}}
            self._url += f"/session/{self._post('/session', {'capabilities': wanted})['sessionId']}"
        except BaseException:
            self._driver.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._request("DELETE", "", None)
        finally:
            self._driver.terminate()
            self._driver.wait(10)

    def open(self, url: str) -> None:
        """Goes to a page."""
        self._post("/url", {"url": "about:blank"})  # so that another fragment of the same page is loaded anew
        self._post("/url", {"url": url})

    def run(self, script: str, *arguments: object) -> Any:
        """The value of a JavaScript function's body."""
        return self._post("/execute/sync", {"script": script, "args": list(arguments)})

    def text(self) -> str:
        """All text that the page shows, with that of its input fields' hints left out."""
        return str(self.run("return document.body ? document.body.innerText : ''"))

    def wait_for(self, *texts: str) -> None:
        """Waits until the page shows all texts.

        Raises:
            Missing: it does not within the time; the message names what is absent.
        """
        deadline = time.monotonic() + self.patience
        while absent := [text for text in texts if text not in self.text()]:
            if time.monotonic() > deadline:
                raise Missing(f"{self.run('return location.href')} does not show {', '.join(map(repr, absent))}")
            time.sleep(0.2)

    def wait_until(self, script: str, what: str) -> Any:
        """Waits until a script's value is true, and returns it.

        Raises:
            Missing: it does not become true within the time.
        """
        deadline = time.monotonic() + self.patience
        while not (value := self.run(script)):
            if time.monotonic() > deadline:
                raise Missing(f"{self.run('return location.href')} has no {what}")
            time.sleep(0.2)
        return value

    def type(self, selector: str, text: str) -> None:
        """Fills an input field, as keys do.

        Raises:
            Missing: there is no such field within the time.
        """
        self.wait_until(f"return !!document.querySelector({json.dumps(selector)})", f"field {selector}")
        found = self._post("/element", {"using": "css selector", "value": selector})
        (element,) = found.values()
        self._post(f"/element/{element}/clear", {})
        self._post(f"/element/{element}/value", {"text": text})

    def press(self, key: str) -> None:
        """Presses and lets go a key where the focus is; WebDriver's letters stand for keys without one."""
        strokes = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        self._post("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]})

    def console(self) -> list[str]:
        """What was said to the console since the last call, and what failed to load."""
        return [str(entry["message"]) for entry in self._post("/se/log", {"type": "browser"})]

    def emulate(self, *, scheme: str, width: int, height: int) -> None:
        """Shows pages as a device of so many pixels does that prefers `light` or `dark`."""
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        for command, params in (("setEmulatedMedia", media), ("setDeviceMetricsOverride", size)):
            self._post("/goog/cdp/execute", {"cmd": f"Emulation.{command}", "params": params})

    def screenshot(self, path: Path) -> None:
        """Writes what the window shows as PNG."""
        path.write_bytes(base64.b64decode(self._request("GET", "/screenshot", None)))

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
            raise RuntimeError(f"chromedriver refuses {method} {path}: {error.read().decode()[:500]}") from error
