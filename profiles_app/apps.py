"""Django's registration of the control plane."""

from django.apps import AppConfig


class ProfilesAppConfig(AppConfig):
    """What should run, and making it so."""

    name = "profiles_app"
    verbose_name = "Profiles and fleet"
