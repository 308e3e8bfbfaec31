"""Reads for loops, pages and the API. Every read on behalf of a person takes the viewer first."""

from profiles_app.selectors.fleet import engine_installs, known_flags, nodes, nodes_for_planning, wanted_on_node
from profiles_app.selectors.profiles import (
    all_profiles,
    model_versions,
    profile_by_name,
    profiles,
    revision_of,
    spec_of,
)
from profiles_app.selectors.replicas import (
    deployment_by_id,
    deployments,
    open_replicas,
    replica_by_id,
    routable_replicas,
    transitions_of,
)
from profiles_app.selectors.setup import processes, setup_is_open, setup_steps
from profiles_app.selectors.viewer import Viewer, system_viewer, viewer_for

__all__ = [
    "Viewer",
    "all_profiles",
    "deployment_by_id",
    "deployments",
    "engine_installs",
    "known_flags",
    "model_versions",
    "nodes",
    "nodes_for_planning",
    "open_replicas",
    "processes",
    "profile_by_name",
    "profiles",
    "replica_by_id",
    "revision_of",
    "routable_replicas",
    "setup_is_open",
    "setup_steps",
    "spec_of",
    "system_viewer",
    "transitions_of",
    "viewer_for",
    "wanted_on_node",
]
