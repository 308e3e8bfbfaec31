"""REST endpoints of monitoring: live series, usage records, prices."""
