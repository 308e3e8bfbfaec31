"""The data plane: keys, routing tables, the OpenAI-compatible proxy and its usage records."""
