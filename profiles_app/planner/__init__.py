"""Where a replica goes, and why not elsewhere. Pure."""
