"""Monitoring: what is seen to run. Measurements, roll-ups, cost, charts and the live pages."""
