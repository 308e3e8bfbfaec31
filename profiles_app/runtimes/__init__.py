"""The door to engine processes: how one is started, watched, explained and ended."""
