"""The commands: each parses, calls the API, and formats."""
