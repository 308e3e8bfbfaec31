"""The pages of the control plane: each view parses, calls one service or selector, and renders."""
