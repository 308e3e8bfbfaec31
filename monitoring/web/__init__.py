"""Server-rendered pages of monitoring."""
