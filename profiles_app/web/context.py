"""What every page's frame needs: the navigation, the theme, and the version."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

VERSION = "0.1.0"
THEME_COOKIE = "theme"
THEMES = ("light", "dark")


@dataclass(frozen=True, slots=True)
class NavItem:
    """One link of the rail. ``icon`` is the sprite's id without its prefix; ``prefix`` marks the pages below it."""

    label: str
    icon: str
    view: str
    prefix: str


@dataclass(frozen=True, slots=True)
class NavLink:
    """A link of the rail as it stands on one page."""

    label: str
    icon: str
    url: str
    current: bool


RAIL: tuple[tuple[str, tuple[NavItem, ...]], ...] = (
    (
        "Run",
        (
            NavItem("Overview", "overview", "profiles:overview", "/"),
            NavItem("Profiles", "profiles", "profiles:list", "/profiles/"),
            NavItem("Deployments", "deploy", "profiles:deployments", "/deployments/"),
            NavItem("Fleet", "fleet", "profiles:fleet", "/fleet/"),
        ),
    ),
    (
        "Observe",
        (
            NavItem("Live", "live", "monitoring:live", "/live/"),
            NavItem("Requests", "requests", "monitoring:requests", "/requests/"),
            NavItem("Prices", "cost", "monitoring:prices", "/prices/"),
        ),
    ),
    ("Prove", (NavItem("Playground", "play", "gateway:playground", "/playground/"),)),
    (
        "Manage",
        (
            NavItem("Keys", "keys", "gateway:keys", "/keys/"),
            NavItem("Settings", "settings", "profiles:settings", "/settings/"),
        ),
    ),
)


def shell(request: HttpRequest) -> dict[str, Any]:
    """Context of ``base.html``; needs no query, so that error pages can have it too."""
    theme = request.COOKIES.get(THEME_COOKIE, "")
    return {
        "navigation": [(group, _links(items, path=request.path)) for group, items in RAIL],
        "theme": theme if theme in THEMES else "",
        "version": VERSION,
    }


def _links(items: tuple[NavItem, ...], *, path: str) -> list[NavLink]:
    """The items whose page exists, with the one that ``path`` belongs to marked."""
    links = []
    for item in items:
        try:
            url = reverse(item.view)
        except NoReverseMatch:
            continue
        current = path == item.prefix or (item.prefix != "/" and path.startswith(item.prefix))
        links.append(NavLink(label=item.label, icon=item.icon, url=url, current=current))
    return links
