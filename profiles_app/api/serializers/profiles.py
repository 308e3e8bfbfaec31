"""Shapes of profiles, revisions and model versions."""

from typing import Any

from rest_framework import serializers

from profiles_app.models import Revision


class ModelVersionSerializer(serializers.Serializer[Any]):
    """One set of weights."""

    id = serializers.UUIDField()
    name = serializers.CharField(source="model.name")
    version = serializers.CharField(source="label")
    licence = serializers.CharField(source="model.licence")
    source = serializers.CharField(  # type: ignore[assignment] # DRF takes declared fields off the class
        help_text="Folder on the nodes, or repository id"
    )
    weights_dtype = serializers.CharField()
    weights_note = serializers.CharField(help_text="Where the weights come from, if that limits what they are")
    weights_bytes = serializers.IntegerField(allow_null=True)
    max_context = serializers.IntegerField(allow_null=True, help_text="Positions, in tokens")
    created_at = serializers.DateTimeField()


class ModelVersionWriteSerializer(serializers.Serializer[Any]):
    """A model version to register. What is left out is read from the folder where this host has it."""

    name = serializers.CharField(max_length=200)
    version = serializers.CharField(max_length=100)
    source = serializers.CharField(  # type: ignore[assignment] # DRF takes declared fields off the class
        max_length=500, help_text="Absolute folder on the nodes, or repository id"
    )
    licence = serializers.CharField(max_length=100, required=False, allow_blank=True)
    weights_dtype = serializers.CharField(max_length=20, required=False)
    weights_note = serializers.CharField(max_length=200, required=False, allow_blank=True)
    weights_bytes = serializers.IntegerField(min_value=1, required=False)
    max_context = serializers.IntegerField(min_value=1, required=False)


class DeploymentBriefSerializer(serializers.Serializer[Any]):
    """How a profile is deployed, in a list of profiles."""

    id = serializers.UUIDField(source="row.pk")
    status = serializers.CharField(source="state.status")
    revision = serializers.IntegerField(source="row.revision.number")
    ready = serializers.IntegerField(source="state.ready")
    wanted = serializers.IntegerField(source="state.wanted")


class ProfileSerializer(serializers.Serializer[Any]):
    """A profile as lists show it."""

    id = serializers.UUIDField(source="profile.pk")
    name = serializers.CharField(source="profile.name")
    team = serializers.CharField(source="profile.team.slug")
    description = serializers.CharField(source="profile.description")
    created_at = serializers.DateTimeField(source="profile.created_at")
    state = serializers.CharField(help_text="Status of its deployment; none: it has no deployment")
    model = serializers.CharField(allow_null=True)
    precision = serializers.CharField(allow_null=True)
    precision_note = serializers.CharField(allow_null=True)
    revision = serializers.IntegerField(allow_null=True, help_text="Number of the newest revision")
    revision_hash = serializers.CharField(allow_null=True)
    deployment = DeploymentBriefSerializer(allow_null=True)


class ProfileDetailSerializer(ProfileSerializer):
    """A profile with the spec of its newest revision."""

    spec = serializers.DictField(allow_null=True)


class ProfileWriteSerializer(serializers.Serializer[Any]):
    """A profile to create, with its first revision."""

    name = serializers.CharField(max_length=100)
    team = serializers.CharField(required=False, help_text="Default: your only team, else default")
    description = serializers.CharField(max_length=300, required=False, allow_blank=True)
    note = serializers.CharField(max_length=300, required=False, allow_blank=True)
    spec = serializers.DictField()


class RevisionSerializer(serializers.Serializer[Any]):
    """A revision as lists show it."""

    id = serializers.UUIDField()
    number = serializers.IntegerField()
    hash = serializers.CharField(source="spec_hash")
    model = serializers.SerializerMethodField()
    note = serializers.CharField()
    created_by = serializers.CharField(source="created_by.username", allow_null=True, default=None)
    created_at = serializers.DateTimeField()

    def get_model(self, row: Revision) -> str:
        """Model and version in one word."""
        return str(row.model_version)


class RevisionDetailSerializer(RevisionSerializer):
    """A revision with its spec."""

    spec = serializers.DictField()


class RevisionWriteSerializer(serializers.Serializer[Any]):
    """A spec to store as the profile's next revision."""

    spec = serializers.DictField()
    note = serializers.CharField(max_length=300, required=False, allow_blank=True)


class ChangeSerializer(serializers.Serializer[Any]):
    """One field that differs. Null: absent on that side."""

    path = serializers.CharField()
    old = serializers.JSONField(allow_null=True)
    new = serializers.JSONField(allow_null=True)


class DiffSerializer(serializers.Serializer[Any]):
    """What changed between two revisions."""

    profile = serializers.CharField()
    against = serializers.IntegerField()
    revision = serializers.IntegerField()
    changes = ChangeSerializer(many=True)


class CommandSerializer(serializers.Serializer[Any]):
    """What one replica would run. Secrets are masked; port and replica id are chosen at the start."""

    engine = serializers.CharField(allow_null=True, help_text="Null: no fitting engine is installed yet")
    argv = serializers.ListField(child=serializers.CharField())
    env = serializers.DictField(child=serializers.CharField())
    config_yaml = serializers.CharField(help_text="The file that --config names")
    display = serializers.CharField(help_text="The same as a person would type it")


class DocumentSerializer(serializers.Serializer[Any]):
    """A profile's document, as its export gives it."""

    kind = serializers.ChoiceField(choices=["Profile"], default="Profile")
    name = serializers.CharField(max_length=100)
    team = serializers.CharField(required=False)
    description = serializers.CharField(max_length=300, required=False, allow_blank=True)
    note = serializers.CharField(max_length=300, required=False, allow_blank=True)
    spec = serializers.DictField()


class AppliedSerializer(serializers.Serializer[Any]):
    """What applying a document did."""

    profile = serializers.CharField()
    revision = serializers.IntegerField()
    hash = serializers.CharField()
    created = serializers.BooleanField(help_text="The profile is new")
    changed = serializers.BooleanField(help_text="The revision is new")


class CheckWriteSerializer(serializers.Serializer[Any]):
    """A spec to judge. Nothing is stored."""

    spec = serializers.DictField()
    name = serializers.CharField(max_length=100, required=False, allow_blank=True)
    team = serializers.CharField(required=False)


class ProblemSerializer(serializers.Serializer[Any]):
    """One thing that is wrong with a spec, and what to do."""

    field = serializers.CharField()
    message = serializers.CharField()


class CheckSerializer(serializers.Serializer[Any]):
    """The judgement of a spec."""

    ok = serializers.BooleanField()
    problems = ProblemSerializer(many=True)
    spec = serializers.DictField(allow_null=True, help_text="With every default filled in")
    command = CommandSerializer(allow_null=True)
