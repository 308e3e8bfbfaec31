"""The `forebay` commands that talk to a running Forebay over its REST API, from this host or another."""
