"""Tests of the command line's client, against a server on the loopback."""
