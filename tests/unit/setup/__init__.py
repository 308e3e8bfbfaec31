"""Tests of the set-up, the supervisor's rules and the doctor."""
