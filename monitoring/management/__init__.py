"""Management package of monitoring."""
