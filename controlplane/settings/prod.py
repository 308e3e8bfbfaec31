"""Settings that `forebay up` and a real installation use."""

from controlplane.settings.base import *  # noqa: F403 - a settings module is its base plus changes
