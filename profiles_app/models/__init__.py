"""The tables of the control plane."""

from profiles_app.models.audit import AuditEntry, SetupToken
from profiles_app.models.deployment import Deployment, Replica, Transition
from profiles_app.models.lease import IdempotencyKey, Lease
from profiles_app.models.model import Model, ModelVersion
from profiles_app.models.node import EngineInstall, Gpu, Node
from profiles_app.models.profile import Profile, Revision
from profiles_app.models.team import Membership, Role, Team

__all__ = [
    "AuditEntry",
    "Deployment",
    "EngineInstall",
    "Gpu",
    "IdempotencyKey",
    "Lease",
    "Membership",
    "Model",
    "ModelVersion",
    "Node",
    "Profile",
    "Replica",
    "Revision",
    "Role",
    "SetupToken",
    "Team",
    "Transition",
]
