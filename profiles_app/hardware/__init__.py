"""The door to the host's hardware: what this node has, and who uses it."""
