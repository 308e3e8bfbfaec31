"""Settings for working on Forebay itself: errors are shown in the browser."""

from controlplane.settings.base import *  # noqa: F403 - a settings module is its base plus changes

DEBUG = True
