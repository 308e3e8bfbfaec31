"""The shapes of requests and answers. They check shape only and never query."""
