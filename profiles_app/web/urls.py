"""Addresses of the control plane's pages."""

from django.urls import path

from profiles_app.web.views import deployments, editor, fleet, overview, people, profiles, settings

app_name = "profiles"
urlpatterns = [
    path("", overview.overview, name="overview"),
    path("setup/<str:token>/", people.setup, name="setup"),
    path("theme/", people.theme, name="theme"),
    path("profiles/", profiles.profile_list, name="list"),
    path("profiles/new/", editor.new, name="new"),
    path("profiles/check/", editor.check, name="check"),
    path("profiles/import/", profiles.import_yaml, name="import"),
    path("profiles/<slug:name>/", profiles.profile, name="profile"),
    path("profiles/<slug:name>/edit/", editor.edit, name="edit"),
    path("profiles/<slug:name>/deploy/", profiles.deploy, name="deploy"),
    path("profiles/<slug:name>/export/", profiles.export, name="export"),
    path("deployments/", deployments.deployment_list, name="deployments"),
    path("deployments/<uuid:pk>/", deployments.deployment, name="deployment"),
    path("deployments/<uuid:pk>/scale/", deployments.scale, name="scale"),
    path("deployments/<uuid:pk>/stop/", deployments.stop, name="stop"),
    path("deployments/<uuid:pk>/retry/", deployments.retry, name="retry"),
    path("fleet/", fleet.fleet, name="fleet"),
    path("fleet/<str:name>/cordon/", fleet.cordon, name="cordon"),
    path("settings/", settings.settings_page, name="settings"),
]
