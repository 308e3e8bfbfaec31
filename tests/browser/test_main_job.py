"""The whole job in a browser, as a new user does it, on the real stack and the real engine; then every page by axe."""

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Watched
from tests.real_stack import PASSWORD, USER, RealStack, deployment_until, wait_for

pytestmark = pytest.mark.browser
AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa"]
SHOTS = Path("test-output") / "shots"
NAME = "browser-made"


@pytest.fixture(scope="module")
def watched(browser: Browser) -> Iterator[Watched]:
    """One window for the whole job."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    window = Watched(browser)
    yield window
    window.context.close()


@pytest.fixture(scope="module")
def page(watched: Watched) -> Page:
    return watched.page


def test_the_one_time_link_makes_the_first_administrator(stack: RealStack, page: Page, watched: Watched) -> None:
    page.goto(stack.setup_link())
    assert violations(page, "/setup/") == []
    page.fill("[name=username]", USER)
    page.fill("[name=password]", PASSWORD)
    page.fill("[name=again]", PASSWORD)
    page.click("main button[type=submit], button[type=submit]")
    expect(page.get_by_role("navigation").first).to_be_visible()
    watched.check()
    assert httpx.get(stack.setup_link(), follow_redirects=True).status_code in {404, 410}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/login/", "/no-such-page/"])
def test_pages_before_the_login_are_accessible_too(stack: RealStack, browser: Browser, scheme: str, path: str) -> None:
    window = Watched(browser, width=390, height=844, scheme=scheme)
    window.page.goto(stack.url + path)
    assert violations(window.page, path) == []
    assert window.page.evaluate("window.__csp") == []
    assert window.page.evaluate("document.documentElement.scrollWidth") <= 390
    window.context.close()


def test_while_the_engine_is_set_up_the_dashboard_says_so(stack: RealStack, page: Page, watched: Watched) -> None:
    page.goto(stack.url)
    expect(page.locator("h1")).to_be_visible()
    stack.wait_for_setup()
    page.goto(stack.url)
    expect(page.locator("main")).to_contain_text("low-latency")
    watched.check()


def test_a_profile_is_made_in_the_editor(stack: RealStack, page: Page, watched: Watched) -> None:
    page.goto(f"{stack.url}/profiles/new/")
    page.fill("#f-name", NAME)
    page.select_option("[name='model.name']", "SmolLM2-135M-Instruct")
    version = page.locator("[name='model.version']")
    if version.evaluate("e => e.tagName") == "SELECT":
        version.select_option("q4-dequantised")
    else:
        version.fill("q4-dequantised")
    while (closed := page.locator("details.sect:not([open]) > summary")).count():
        closed.first.click()
    page.fill("[name='batching.kv_cache_mib']", "128")
    page.fill("[name='slo.ttft_p99_ms']", "2000")
    expect(page.locator("#check")).to_contain_text("--kv-cache-memory-bytes 134217728")
    page.get_by_role("button", name="Store profile").click()
    expect(page.locator("h1")).to_have_text(NAME)
    expect(page.locator("main")).to_contain_text("dequantised from Q4_1")
    watched.check()


def test_it_is_deployed_and_becomes_ready(
    stack: RealStack, page: Page, watched: Watched, record_property: pytest.FixtureRequest
) -> None:
    page.get_by_role("button", name=re.compile("^Deploy r1")).click()
    dialog = page.locator("dialog[open]")
    dialog.get_by_role("button", name=re.compile("^Deploy")).click()
    expect(page.locator("h1")).to_contain_text(NAME)
    with stack.client(stack.token()) as api:
        row = api.get(f"deployments/?profile={NAME}").json()["results"][0]
        deployment_until(api, row["id"], "ready", seconds=240)
    page.goto(f"{stack.url}/deployments/{row['id']}/")
    expect(page.locator("main")).to_contain_text("Ready", ignore_case=True)
    expect(page.locator("#log, .log").first).to_contain_text("Application startup complete", timeout=20_000)
    watched.check()


def test_the_playground_answers_paris(stack: RealStack, page: Page, watched: Watched) -> None:
    page.goto(f"{stack.url}/playground/")
    page.select_option("#p-profile", NAME)
    page.fill("#p-prompt", "What is the capital of France?")
    page.click("#play-send")
    expect(page.locator("#answer")).to_contain_text("Paris", timeout=30_000)
    expect(page.locator("#play-headers")).to_contain_text(NAME)
    watched.check()


def test_the_live_page_shows_latency_and_cost_that_move(stack: RealStack, page: Page, watched: Watched) -> None:
    with stack.client(stack.token()) as api:
        price = {
            "accelerator": "cpu",
            "unit": "core_hour",
            "usd": "0.036",
            "source": "the test's own",
            "as_of": "2026-12-01",
        }
        api.post("prices/", json=price).raise_for_status()
        key = api.post("keys/", json={"name": "load", "team": "default", "profiles": [NAME]}).json()["key"]
    page.goto(f"{stack.url}/live/{NAME}/?minutes=5")
    expect(page.locator("#live-mark")).to_have_attribute("data-state", "live", timeout=15_000)
    load(stack, key, seconds=8)
    stat = page.locator("[data-stat='ttft.p99']").first
    expect(stat).to_contain_text(re.compile(r"\d"), timeout=10_000)
    cost = page.locator("[data-stat='cost_per_minute']").first
    expect(cost).to_contain_text(re.compile(r"\$\s?0\.000\d*[1-9]|\$\s?\d"), timeout=75_000)
    before = (stat.text_content(), cost.text_content(), page.locator("[data-stat='e2e.p99']").first.text_content())

    def moved() -> bool:
        load(stack, key, seconds=2)
        now = (stat.text_content(), cost.text_content(), page.locator("[data-stat='e2e.p99']").first.text_content())
        return now != before

    wait_for("the live numbers to move", moved, seconds=40)
    headline, figure = page.evaluate(SAID)
    assert "".join(figure.split()) in "".join(headline.split())
    page.screenshot(path=SHOTS / "live.png")
    watched.check()


# Read in one go, between two frames.
SAID = """() => [
  document.querySelector("h1").textContent,
  document.querySelector("[data-stat='ttft.p99']").textContent,
]"""
LAG = """
(topic) => new Promise((resolve) => {
  const socket = new WebSocket(`ws://${location.host}/ws/live/?topics=${topic}`);
  const lags = [];
  socket.onmessage = (event) => {
    const message = JSON.parse(event.data);
    if (message.type !== "frame") return;
    lags.push(Date.now() / 1000 - message.at);
    if (lags.length > 6) { socket.close(); resolve(lags.slice(1)); }
  };
})
"""


def test_a_frame_reaches_the_browser_within_its_second(stack: RealStack, page: Page, watched: Watched) -> None:
    lags = page.evaluate(LAG, f"profile:{NAME}")
    (SHOTS.parent / "frame_lag_seconds.json").write_text(json.dumps(lags))
    # A bound on staleness, not a timing: a frame older than its period would show the past as the present.
    assert sorted(lags)[len(lags) // 2] < 1
    watched.check()


def test_when_the_broker_dies_the_page_says_reconnecting_and_heals(
    stack: RealStack, page: Page, watched: Watched
) -> None:
    page.goto(f"{stack.url}/live/{NAME}/?minutes=5")
    mark = page.locator("#live-mark")
    expect(mark).to_have_attribute("data-state", "live", timeout=15_000)
    status = json.loads((stack.data / "run" / "status.json").read_text())
    valkey = next(row for row in status["processes"] if row["name"] == "valkey")
    os.kill(valkey["pid"], signal.SIGKILL)
    expect(mark).to_have_attribute("data-state", "reconnecting", timeout=15_000)
    expect(mark).to_have_attribute("data-state", "live", timeout=40_000)
    watched.check()


def load(stack: RealStack, key: str, *, seconds: float) -> None:
    """Streamed requests, one after the other, for so long."""
    body = {
        "model": NAME,
        "stream": True,
        "max_tokens": 12,
        "messages": [{"role": "user", "content": "Count to five."}],
    }
    end = time.monotonic() + seconds
    with httpx.Client(headers={"Authorization": f"Bearer {key}"}, timeout=60) as client:
        while time.monotonic() < end:
            client.post(f"{stack.gateway_url}/chat/completions", json=body)


def violations(page: Page, name: str) -> list[str]:
    """What axe finds on the page by WCAG 2.0 to 2.2, A and AA."""
    result = Axe().run(page, options={"runOnly": {"type": "tag", "values": AXE_TAGS}})
    return [
        f"{name}: {violation['id']} {[node['html'][:120] for node in violation['nodes']][:2]}"
        for violation in result.response["violations"]
    ]


PAGES = (
    "/",
    "/profiles/",
    f"/profiles/{NAME}/",
    f"/profiles/{NAME}/edit/",
    "/profiles/new/",
    "/profiles/import/",
    "/deployments/",
    "/fleet/",
    "/live/",
    f"/live/{NAME}/",
    "/requests/",
    "/prices/",
    "/playground/",
    "/keys/",
    "/settings/",
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_breaks_accessibility_or_the_layout(
    stack: RealStack, browser: Browser, watched: Watched, scheme: str, width: int
) -> None:
    window = Watched(browser, width=width, height=844, scheme=scheme)
    window.context.add_cookies(watched.context.cookies())
    found = []
    with stack.client(stack.token()) as api:
        pk = api.get(f"deployments/?profile={NAME}").json()["results"][0]["id"]
    for path in (*PAGES, f"/deployments/{pk}/"):
        window.page.goto(stack.url + path)
        window.page.wait_for_timeout(300)
        found += violations(window.page, path)
        if window.page.evaluate("document.documentElement.scrollWidth") > width:
            found.append(f"{path}: wider than {width} px")
        name = path.strip("/").replace("/", "_") or "overview"
        window.page.screenshot(path=SHOTS / f"{name}-{scheme}-{width}.png", full_page=True)
        window.check()
    window.context.close()
    assert found == []


def test_a_drain_while_a_stream_runs_ends_whole_and_leaves_no_process(
    stack: RealStack, page: Page, watched: Watched
) -> None:
    with stack.client(stack.token()) as api:
        row = api.get(f"deployments/?profile={NAME}").json()["results"][0]
        pid = api.get(f"deployments/{row['id']}/").json()["replicas"][0]["pid"]
        page.goto(f"{stack.url}/playground/")
        page.select_option("#p-profile", NAME)
        page.fill("#p-prompt", "Tell me a long story about a river.")
        page.fill("#p-max", "120")
        page.click("#play-send")
        expect(page.locator("#answer")).to_contain_text(re.compile(r"\w{3,}"), timeout=30_000)
        other = watched.context.new_page()
        other.goto(f"{stack.url}/deployments/{row['id']}/")
        other.get_by_role("button", name=re.compile("^Drain")).first.click()
        other.locator("dialog[open]").get_by_role("button", name=re.compile("^Drain")).click()
        expect(page.locator("#answer")).to_have_attribute("aria-busy", "false", timeout=60_000)
        expect(page.locator("#play-error")).to_be_hidden()
        deployment_until(api, row["id"], "stopped", seconds=60)
    assert not Path(f"/proc/{pid}").exists()
    watched.check()
