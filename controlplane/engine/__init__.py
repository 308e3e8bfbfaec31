"""Engine installs: makes or adopts an environment that holds vLLM, and the demo weights it serves.

Nothing in here imports Django: `forebay up` runs it in a child while the dashboard is already up.
"""
