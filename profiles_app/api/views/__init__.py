"""The endpoints: each parses, calls one service or selector, and formats."""
