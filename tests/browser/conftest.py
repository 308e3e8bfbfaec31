"""The real stack, and headless Chromium on it; a console error or a CSP violation fails the test that made it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

from tests.real_stack import RealStack, new_root

CHROMIUM = "/usr/bin/chromium"
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Registered before any script of a page, or early violations go unseen.
CSP_LISTENER = """
window.__csp = [];
document.addEventListener("securitypolicyviolation", (e) =>
  window.__csp.push(`${e.violatedDirective} ${e.blockedURI}`));
"""


@pytest.fixture(scope="session")
def stack() -> Iterator[RealStack]:
    """`forebay up` with the demo, no user yet; at the end nothing of it may be left."""
    root = new_root()
    stack = RealStack(root)
    try:
        stack.start()
        yield stack
        assert stack.stop() == 0, stack.text()
        assert stack.leftovers() == []
    finally:
        stack.stop()
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    if not Path(CHROMIUM).exists():
        pytest.fail("Chromium is missing: run scripts/need-chromium.sh or install the package chromium.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield browser
        browser.close()


class Watched:
    """A browser context whose pages are watched for console errors and CSP violations."""

    def __init__(self, browser: Browser, *, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        self.context: BrowserContext = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if scheme == "dark" else "light"
        )
        self.context.add_init_script(CSP_LISTENER)
        self.errors: list[str] = []
        self.page: Page = self.context.new_page()
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.errors.append(f"{self.page.url}: {error}"))

    def _note(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{self.page.url}: {message.text}")

    def check(self) -> None:
        """Fail on what the page complained about so far."""
        assert self.page.evaluate("window.__csp") == []
        assert self.errors == []
