"""Whole numbers out of what a browser sends. Pure."""


def whole(text: str | None) -> int | None:
    """``text`` as a whole number, or None where it is none; separators are allowed."""
    cleaned = (text or "").strip().replace(",", "")
    return int(cleaned) if cleaned.isascii() and cleaned.isdigit() and len(cleaned) < 10 else None
