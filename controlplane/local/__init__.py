"""One machine: what `forebay up` needs to start, watch and stop everything here. Only `prepare` imports Django."""
