"""Pages as a browser shows them, without a screen: what is wrong with them there.

The browser is the machine's own Chromium, driven by Playwright; what is hard to read or to reach is
found by axe-core.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Request, ViewportSize, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
DESKTOP, PHONE, A4 = 1280, 390, 718
"""Widths in CSS pixels; of A4 what its margins leave."""
HEIGHT = 900
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")

WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CUT = """
[...document.querySelectorAll('*')].filter(one =>
    one.clientWidth && one.scrollWidth > one.clientWidth + 1
    && ['auto', 'scroll', 'hidden'].includes(getComputedStyle(one).overflowX)
).map(one => one.outerHTML.slice(0, 80))
"""
"""The part of a printed page beyond every scroll position."""


@dataclass(frozen=True, slots=True)
class Eyes:
    """Looks at pages."""

    browser: Browser

    def faults(self, page: Path) -> list[str]:
        """Return the defects of the page on a desktop and a phone, light and dark, and on paper.

        Rules on structure are the same in both schemes, and a desktop shows the colours of each
        scheme. So axe need not look at a dark phone: a look takes a second of processor time.
        """
        with self._window(page.absolute().as_uri()) as window:
            found = [
                f"{page.name}, {scheme}, {width} px: {fault}"
                for scheme in SCHEMES
                for width in (DESKTOP, PHONE)
                for fault in window.faults(width, scheme)
            ]
            return [*found, *(f"{page.name}, printed: {fault}" for fault in window.cut())]

    @contextmanager
    def page(
        self,
        page: Path,
        *,
        width: int = DESKTOP,
        scheme: Scheme = "light",
        javascript: bool = True,
    ) -> Iterator[tuple[Page, list[str]]]:
        """Open a page for a test that uses it. Yield it with what its console and its requests have
        said that they should not."""
        size: ViewportSize = {"width": width, "height": HEIGHT}
        with self.browser.new_context(
            viewport=size, color_scheme=scheme, java_script_enabled=javascript
        ) as context:
            window = _Window(context.new_page(), page.absolute().as_uri())
            window.open()
            yield window.page, window.said

    @contextmanager
    def _window(self, address: str) -> Iterator["_Window"]:
        with self.browser.new_context() as context:
            yield _Window(context.new_page(), address)


class _Window:
    """One for all looks at a page, which is loaded again for each: a window takes longer to open
    than a page."""

    def __init__(self, window: Page, address: str) -> None:
        self.page = window
        self._address = address
        self.said: list[str] = []
        window.on("console", lambda line: self.said.append(f"console: {line.text}"))
        window.on("pageerror", lambda error: self.said.append(f"script: {error}"))
        window.on("request", self._asked)

    def faults(self, width: int, scheme: Scheme) -> Iterator[str]:
        self._load(width, scheme)
        wider = self.page.evaluate(WIDER)
        if wider > 0:
            yield f"it is {wider} px wider than the window"
        if (width, scheme) != (PHONE, "dark"):
            for rule in Axe().run(self.page).response["violations"]:
                yield f"{rule['id']} ({rule['impact']}): {rule['nodes'][0]['html'][:100]}"
        yield from self.said

    def cut(self) -> list[str]:
        """Return the parts that are unreadable on paper."""
        self._load(A4, "light")
        self.page.emulate_media(media="print")
        wider = self.page.evaluate(WIDER)
        wide = [f"it is {wider} px wider than the paper"] if wider > 0 else []
        return [*wide, *(f"cut off: {one}" for one in self.page.evaluate(CUT))]

    def _load(self, width: int, scheme: Scheme) -> None:
        """``said`` starts empty: what its console and its requests say that should not be."""
        self.said.clear()
        self.page.set_viewport_size({"width": width, "height": HEIGHT})
        self.page.emulate_media(color_scheme=scheme)
        self.open()

    def open(self) -> None:
        self.page.goto(self._address)

    def _asked(self, request: Request) -> None:
        if request.url != self._address:
            self.said.append(f"request: {request.url}")


@contextmanager
def eyes() -> Iterator[Eyes]:
    """Start Chromium, and stop it at the end. Skip the test where there is none. Until the end no
    event loop can be run in this thread, because Playwright's runs."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("there is no Chromium; on Debian: apt-get install chromium")
    with sync_playwright() as driver:
        # Its sandbox does not work as root; what it opens is our own.
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield Eyes(browser)
        finally:
            browser.close()
