"""Doors to what is measured elsewhere: engines' /metrics, the gateways' usage stream and reports."""
