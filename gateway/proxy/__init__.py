"""The request path of the gateway: no Django, no database, nothing of ours from outside this package."""
