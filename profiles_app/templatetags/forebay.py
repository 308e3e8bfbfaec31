"""Tags and filters that the templates share: icons, state marks, times and numbers."""

from datetime import datetime
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from profiles_app.web import formats
from profiles_app.web.marks import Mark, mark

register = template.Library()

register.filter("memory", formats.memory)
register.filter("latency", formats.latency)
register.filter("percent", formats.percent)
register.filter("duration", formats.duration)


@register.simple_tag
def icon(name: str) -> SafeString:
    """A 16 px icon of the sprite."""
    return format_html('<svg class="i" viewBox="0 0 16 16" aria-hidden="true"><use href="#i-{}"/></svg>', name)


@register.simple_tag
def glyph(name: str, tone: str = "") -> SafeString:
    """A 12 px state glyph of the sprite, in a tone."""
    return format_html('<svg class="g {}" viewBox="0 0 12 12" aria-hidden="true"><use href="#g-{}"/></svg>', tone, name)


@register.simple_tag
def state(value: str, note: str = "", word: str = "") -> SafeString:
    """A state in a table: glyph, word, and a small note."""
    drawn = mark(value)
    small = format_html(" <small>{}</small>", note) if note else ""
    return format_html(
        '<span class="state {}">{}{}{}</span>', drawn.tone, glyph(drawn.glyph), word or drawn.word, small
    )


@register.simple_tag
def badge(value: str, word: str = "") -> SafeString:
    """A state in a header: boxed, dashed where it is not known."""
    drawn = mark(value)
    dash = "dash" if drawn.glyph == "unknown" else ""
    return format_html(
        '<span class="badge {} {}">{}{}</span>', drawn.tone, dash, glyph(drawn.glyph), word or drawn.word
    )


@register.filter
def marked(value: str) -> Mark:
    """The mark of a state, for templates that place its parts themselves."""
    return mark(value)


@register.filter
def moment(value: datetime | None) -> SafeString | str:
    """A time as a ``time`` element that holds the full date (UTC)."""
    if value is None:
        return "never"
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>',
        value.isoformat(),
        f"{value:%Y-%m-%d %H:%M:%S}",
        formats.clock(value, now=timezone.now()),
    )


@register.filter
def ago(value: datetime | None) -> str:
    """How long ago a time was: 6 min 42 s."""
    return "never" if value is None else formats.duration((timezone.now() - value).total_seconds())


@register.filter
def item(mapping: Any, key: Any) -> Any:
    """``mapping[key]``, or None."""
    return mapping.get(key) if mapping else None


@register.filter
def short(value: object) -> str:
    """The first eight characters of an id or a hash."""
    return str(value)[:8]


@register.filter
def dashed(path: str) -> str:
    """A dotted path as part of an element's id."""
    return path.replace(".", "-")


@register.filter
def svg_percent(share: float | None) -> str:
    """A share of 0 to 1 as the length of an SVG attribute."""
    return f"{min(1.0, max(0.0, share or 0.0)) * 100:.1f}%"


@register.filter
def gib_figure(value: float | None) -> str:
    """Bytes as whole GiB without their unit, for the small cells of the map."""
    return "?" if value is None else f"{value / formats.GIB:.0f}"
