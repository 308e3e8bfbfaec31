"""Database migrations of monitoring."""
