"""Chromium without a window, told what to do over its DevTools protocol."""

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import websocket

PROGRAM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
START_S = 30
ANSWER_S = 60


class Browser:
    """One page of a browser."""

    def __init__(self, address: str) -> None:
        self.socket = websocket.create_connection(address, timeout=ANSWER_S, suppress_origin=True)
        self.number = 0
        self.requests: list[str] = []
        self.complaints: list[str] = []
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: object) -> dict[str, object]:
        """Sends a command and waits for its answer; events on the way are looked at."""
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]
            self._event(message)

    def _event(self, message: dict[str, dict[str, dict[str, str]]]) -> None:
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        if message.get("method") == "Log.entryAdded":
            self.complaints.append(message["params"]["entry"]["text"])

    def open(self, file: Path, *, width: int, dark: bool, media: str = "screen") -> None:
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", media=media, features=scheme)
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 700)
        self.ask("Page.navigate", url=file.as_uri())
        limit = time.monotonic() + START_S
        while self.value("document.readyState") != "complete" or self.value("location.href") != file.as_uri():
            assert time.monotonic() < limit, "the page does not load"
            time.sleep(0.05)

    def value(self, expression: str) -> object:
        """What a script in the page says; the page itself has none."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")  # type: ignore[attr-defined]

    def picture(self, file: Path) -> None:
        """The whole page as a picture."""
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(str(shot["data"])))


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with an empty profile that talks to nobody of its own accord."""
    assert PROGRAM
    quiet = ("--headless=new", "--no-first-run", "--disable-gpu", "--disable-background-networking", "--no-sandbox")
    port = ("--remote-debugging-port=0", f"--user-data-dir={folder}")
    told = folder / "DevToolsActivePort"
    process = subprocess.Popen(
        [PROGRAM, *quiet, *port, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        limit = time.monotonic() + START_S
        while not told.is_file() or not told.read_text().count("\n"):
            assert process.poll() is None, "the browser ended"
            assert time.monotonic() < limit, "the browser does not start"
            time.sleep(0.05)
        number = told.read_text().splitlines()[0]
        found = Browser(_page(int(number)))
        yield found
        found.socket.close()
    finally:
        process.terminate()
        process.wait(START_S)


def _page(port: int) -> str:
    """The address of the one page that is open."""
    import urllib.request  # noqa: PLC0415  # needed nowhere else

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=ANSWER_S) as answer:
        pages = json.load(answer)
    return next(str(page["webSocketDebuggerUrl"]) for page in pages if page["type"] == "page")
