"""A headless Chromium for tests: driven over a pipe by the DevTools protocol, without a package of its own."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
FOUND = next((path for name in NAMES if (path := shutil.which(name))), None)
MISSING = "no Chromium here (apt-get install chromium): the page is not opened"
SECONDS = 60  # that an answer may take, on a machine that has other work, too
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking", "--remote-debugging-pipe"),
)


class Browser:
    """One page of one browser. `said`: what its console reported as an error; `asked`: addresses that it loaded."""

    def __init__(self, folder: Path) -> None:
        assert FOUND
        to_browser, from_us = os.pipe()
        from_browser, to_us = os.pipe()

        def lend() -> None:  # it reads from 3 and writes to 4
            first, second = os.dup(to_browser), os.dup(to_us)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.process = subprocess.Popen(
            [FOUND, *OPTIONS, f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=lend, pass_fds=(3, 4),
        )  # fmt: skip
        os.close(to_browser)
        os.close(to_us)
        self._write, self._read = os.fdopen(from_us, "wb"), os.fdopen(from_browser, "rb")
        self._last = 0
        self._kept = b""
        self._session: str | None = None
        self.said: list[str] = []
        self.asked: list[str] = []
        (page,) = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        self._session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._write.close()
        self._read.close()
        self.process.terminate()
        self.process.wait(SECONDS)

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._kept:
            ready, _, _ = select.select([self._read], [], [], SECONDS)
            assert ready, f"the browser did not answer for {SECONDS} s"
            more = os.read(self._read.fileno(), 1 << 16)
            assert more, "the browser ended"
            self._kept += more
        message, _, self._kept = self._kept.partition(b"\0")
        return json.loads(message)

    def _hear(self, message: dict[str, Any]) -> None:
        found = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            details = found["exceptionDetails"]
            self.said.append(details.get("exception", {}).get("description") or details["text"])
        elif message.get("method") == "Runtime.consoleAPICalled" and found["type"] in ("error", "assert", "warning"):
            self.said.append(" ".join(str(a.get("value", a.get("description"))) for a in found["args"]))
        elif message.get("method") == "Log.entryAdded" and found["entry"]["level"] == "error":
            self.said.append(found["entry"]["text"])
        elif message.get("method") == "Network.requestWillBeSent":
            self.asked.append(found["request"]["url"])

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:  # noqa: ANN401, as the protocol has it
        """The answer to a command of the protocol; events until then are kept."""
        self._last += 1
        told = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            told["sessionId"] = self._session
        self._write.write(json.dumps(told).encode() + b"\0")
        self._write.flush()
        while True:
            message = self._message()
            if message.get("id") == self._last:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]
            self._hear(message)

    def run(self, script: str) -> Any:  # noqa: ANN401, whatever it gives
        """The value of an expression in the page; of a promise, what it comes to."""
        found = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"].get("exception", found)
        return found["result"].get("value")

    def wide(self, width: int, height: int = 900, scale: float = 1) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                  mobile=width < 700)  # fmt: skip

    def prefers(self, **features: str) -> None:
        """Media features, such as prefers_color_scheme="dark"."""
        found = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.call("Emulation.setEmulatedMedia", features=found)

    def open(self, address: str, ready: str) -> None:
        """Loads a page and waits until it is ready."""
        self.call("Page.navigate", url=address)
        self.until(ready)

    def until(self, ready: str) -> None:
        """Waits until the expression is true."""
        self.run(
            f"""new Promise((done, failed) => {{
              const end = performance.now() + {1000 * SECONDS};
              const look = () => ({ready}) ? done()
                : performance.now() > end ? failed("it is not ready") : setTimeout(look, 20);
              look(); }})"""
        )

    def press(self, key: str, code: int, **more: Any) -> None:  # noqa: ANN401
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **more)

    def picture(self, path: Path, whole: bool = True) -> None:
        found = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))
