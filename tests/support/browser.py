"""Pages as a browser shows them, without a screen: what is wrong with them there.

The browser is the machine's own Chromium, driven by Playwright; what is hard to read or to reach is
found by axe-core.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
DESKTOP, PHONE, A4 = 1280, 390, 718
"""Widths in CSS pixels; of A4 what its margins leave."""
HEIGHT = 900
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")

WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CUT = """
[...document.querySelectorAll('*')].filter(one =>
    one.clientWidth && one.scrollWidth > one.clientWidth + 1
    && ['auto', 'scroll', 'hidden'].includes(getComputedStyle(one).overflowX)
).map(one => one.outerHTML.slice(0, 80))
"""
"""What of a printed page nobody can scroll to."""


def program() -> str | None:
    """Chromium's path; None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@dataclass(frozen=True, slots=True)
class Eyes:
    """Looks at pages."""

    browser: Browser

    def faults(self, page: Path) -> list[str]:
        """What is wrong with it, on a desktop and on a phone, light and dark, and on paper."""
        found = [
            f"{page.name}, {scheme}, {width} px: {fault}"
            for scheme in SCHEMES
            for width in (DESKTOP, PHONE)
            for fault in self._faults(page, width, scheme)
        ]
        return [*found, *(f"{page.name}, printed: {fault}" for fault in self._cut(page))]

    def _faults(self, page: Path, width: int, scheme: Literal["light", "dark"]) -> Iterator[str]:
        with self._opened(page, width, color_scheme=scheme) as (opened, said):
            wider = opened.evaluate(WIDER)
            if wider > 0:
                yield f"it is {wider} px wider than the window"
            for rule in Axe().run(opened).response["violations"]:
                yield f"{rule['id']} ({rule['impact']}): {rule['nodes'][0]['html'][:100]}"
            yield from said

    def _cut(self, page: Path) -> list[str]:
        with self._opened(page, A4) as (opened, _):
            opened.emulate_media(media="print")
            wider = opened.evaluate(WIDER)
            wide = [f"it is {wider} px wider than the paper"] if wider > 0 else []
            return [*wide, *(f"cut off: {one}" for one in opened.evaluate(CUT))]

    @contextmanager
    def _opened(self, page: Path, width: int, **how: Any) -> Iterator[tuple[Page, list[str]]]:
        """The page, and what its console and its requests said that should not be."""
        said: list[str] = []
        window: ViewportSize = {"width": width, "height": HEIGHT}
        with self.browser.new_context(viewport=window, **how) as context:
            opened = context.new_page()
            address = page.absolute().as_uri()
            opened.on("console", lambda line: said.append(f"console: {line.text}"))
            opened.on("pageerror", lambda error: said.append(f"script: {error}"))
            opened.on(
                "request",
                lambda one: None if one.url == address else said.append(f"request: {one.url}"),
            )
            opened.goto(address)
            yield opened, said


@contextmanager
def eyes(path: str) -> Iterator[Eyes]:
    """``path``: Chromium's."""
    with sync_playwright() as driver:
        # Its sandbox does not work as root; what it opens is our own.
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield Eyes(browser)
        finally:
            browser.close()
