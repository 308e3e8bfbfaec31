"""One module a page, named after what it shows."""
