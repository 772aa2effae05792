"""A headless Chromium, spoken to by its DevTools protocol over a pipe: what a page looks like, says and asks for."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

UPDATE = ["apt-get", "update"]
INSTALL = ["apt-get", "install", "-y", "--no-install-recommends", "chromium"]
OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
]


def chromium() -> str:
    """The browser; installed now where it is missing."""
    found = shutil.which("chromium")
    if found is None:
        if not Path("/etc/debian_version").exists():
            pytest.skip("pages are looked at in Debian's chromium, and this is no Debian")
        if os.geteuid() != 0:
            pytest.fail(f"pages are looked at in chromium, which is missing; as root, say: {' '.join(INSTALL)}")
        for words in (INSTALL, UPDATE, INSTALL):  # a new machine may know no packages yet
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            found = shutil.which("chromium")
            if found is not None:
                break
        if found is None:
            pytest.fail(f"chromium cannot be installed: {done.stderr[-500:]}")
    return found


class Browser:
    """One tab of a browser."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._rest = b""
        self._number = 0
        self._tab: str | None = None
        self.events: list[dict[str, Any]] = []
        """What has happened since a page was opened."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._tab = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        message |= {"sessionId": self._tab} if self._tab is not None else {}
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def _next(self) -> Any:
        while b"\0" not in self._rest:
            more = os.read(self._receive, 1 << 16)
            assert more, "the browser has gone"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def open(self, page: Path, *, width: int, dark: bool) -> None:
        """A page, in a window of so many pixels, by day or by night."""
        self.events.clear()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 600)
        self.ask("Page.navigate", url=page.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def value(self, code: str) -> Any:
        """Of an expression in the page."""
        found = self.ask("Runtime.evaluate", expression=code, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"]["value"]

    def requests(self) -> list[str]:
        """Addresses that the page has asked for, itself left out."""
        sent = [event["params"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [one["request"]["url"] for one in sent if one.get("type") != "Document"]

    def complaints(self) -> list[Any]:
        """What stands in its console."""
        told = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        return [event["params"] for event in self.events if event.get("method") in told]


@contextlib.contextmanager
def started(folder: Path) -> Iterator[Browser]:
    """A browser whose files are in `folder`; it is gone afterwards, with all its processes."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    command = [chromium(), *OPTIONS, f"--user-data-dir={folder / 'profile'}", f"--disk-cache-dir={folder / 'cache'}"]
    # The browser reads from descriptor 3 and writes to 4; a shell gives them these numbers, wherever they are here.
    words = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
    process = subprocess.Popen(
        ["bash", "-c", words, "chromium", *command],
        pass_fds=(theirs_in, theirs_out),
        env={**os.environ, "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(ours_out, ours_in)
    finally:
        os.close(ours_out)
        os.close(ours_in)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
