"""Unit tests of monitoring's pure modules."""
