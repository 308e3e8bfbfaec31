"""The only writers of the control plane's tables."""
