"""Addresses of the control plane's endpoints, below /api/v1/."""

from django.urls import path

from profiles_app.api.views import deployments, fleet, people, profiles, replicas, revisions, weights

urlpatterns = [
    path("me/", people.Me.as_view(), name="api-me"),
    path("tokens/", people.Tokens.as_view(), name="api-tokens"),
    path("status/", people.Status.as_view(), name="api-status"),
    path("models/", weights.ModelList.as_view(), name="api-models"),
    path("profiles/", profiles.ProfileList.as_view(), name="api-profiles"),
    path("profiles/apply/", profiles.ProfileApply.as_view(), name="api-profile-apply"),
    path("profiles/check/", profiles.ProfileCheck.as_view(), name="api-profile-check"),
    path("profiles/<slug:name>/", profiles.ProfileDetail.as_view(), name="api-profile"),
    path("profiles/<slug:name>/yaml/", profiles.ProfileYaml.as_view(), name="api-profile-yaml"),
    path("profiles/<slug:name>/revisions/", revisions.RevisionList.as_view(), name="api-revisions"),
    path("profiles/<slug:name>/revisions/<int:number>/", revisions.RevisionDetail.as_view(), name="api-revision"),
    path(
        "profiles/<slug:name>/revisions/<int:number>/diff/", revisions.RevisionDiff.as_view(), name="api-revision-diff"
    ),
    path(
        "profiles/<slug:name>/revisions/<int:number>/command/",
        revisions.RevisionCommand.as_view(),
        name="api-revision-command",
    ),
    path("deployments/", deployments.DeploymentList.as_view(), name="api-deployments"),
    path("deployments/<uuid:pk>/", deployments.DeploymentDetail.as_view(), name="api-deployment"),
    path("deployments/<uuid:pk>/drain/", deployments.DeploymentDrain.as_view(), name="api-deployment-drain"),
    path("deployments/<uuid:pk>/retry/", deployments.DeploymentRetry.as_view(), name="api-deployment-retry"),
    path("replicas/<uuid:pk>/", replicas.ReplicaDetail.as_view(), name="api-replica"),
    path("replicas/<uuid:pk>/log/", replicas.ReplicaLog.as_view(), name="api-replica-log"),
    path("replicas/<uuid:pk>/log/download/", replicas.ReplicaLogDownload.as_view(), name="api-replica-log-download"),
    path("nodes/", fleet.NodeList.as_view(), name="api-nodes"),
    path("nodes/<str:name>/", fleet.NodeDetail.as_view(), name="api-node"),
    path("nodes/<str:name>/cordon/", fleet.NodeCordon.as_view(), name="api-node-cordon"),
    path("nodes/<str:name>/uncordon/", fleet.NodeUncordon.as_view(), name="api-node-uncordon"),
    path("engines/", fleet.EngineList.as_view(), name="api-engines"),
]
