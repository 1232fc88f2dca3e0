"""A real browser for the page: the system's Chromium, driven by its own driver; nothing is downloaded."""

import os
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

REQUIRED = "BACADI_BROWSER"
"""Set to `required` (`make test-browser` does), a missing browser fails the tests instead of skipping them."""


def programs() -> tuple[str, str]:
    """Chromium and its driver; the test is skipped, or fails where they are required, with the reason."""
    pytest.importorskip("selenium", reason="selenium is not installed: pip install -e .[dev]")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        reason = "chromium and chromedriver are not installed: `make test-browser` installs them"
        pytest.fail(reason) if os.environ.get(REQUIRED) == "required" else pytest.skip(reason)
    return browser, driver


def start(downloads: Path) -> Any:
    """A browser without a window that keeps the messages of its console and saves files into a folder."""
    browser, driver = programs()
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "hide-scrollbars"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # With the driver named, selenium looks for no other and downloads none.
    window = webdriver.Chrome(options=options, service=Service(driver))
    window.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    return window


def resize(window: Any, width: int, height: int = 900) -> None:
    """The size of the page in CSS pixels, that of a phone below 500."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    window.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def emulate(window: Any, scheme: str = "light", media: str = "screen") -> None:
    """Light or dark, on a screen or on paper."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    window.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})


class Site:
    """A folder served on this machine, with every path that was asked for."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[str] = []
        site = self

        class Handler(SimpleHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                site.asked.append(self.path)

            def end_headers(self) -> None:
                self.send_header("Cache-Control", "no-store")
                super().end_headers()

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def serve(folder: Path) -> Iterator[Site]:
    """Serve a folder until the tests are done."""
    site = Site(folder)
    yield site
    site.server.shutdown()
    site.server.server_close()
