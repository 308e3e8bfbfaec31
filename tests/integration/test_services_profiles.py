"""Profiles and revisions are written once, by those who may, and read back from YAML as they were."""

from typing import Any

import pytest

from profiles_app.errors import DomainError, ForbiddenError, NotFoundError
from profiles_app.models import AuditEntry, Profile, Revision
from profiles_app.selectors import profile_by_name, profiles, revision_of, spec_of, system_viewer
from profiles_app.services.demo import demo_seed
from profiles_app.services.profiles import (
    SpecError,
    model_version_register,
    profile_apply,
    profile_create,
    profile_document,
    profile_export,
    revision_create,
    spec_check,
)
from tests.factories import cpu_spec, first_revision, gpu_spec, make_model, make_profile, make_team, make_viewer

pytestmark = pytest.mark.django_db(databases=["default", "telemetry"])


def test_a_profile_is_stored_with_its_first_revision_and_an_audit_entry() -> None:
    make_model()
    viewer = make_viewer()
    profile = profile_create(viewer, team=make_team(), name="fast", spec=cpu_spec(), note="first")
    revision = first_revision(profile)
    assert (revision.number, revision.note, revision.created_by_id) == (1, "first", viewer.user_id)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target, entry.actor_id) == ("profile.create", "fast", viewer.user_id)


@pytest.mark.parametrize("name", ["a", "low-latency", "x1", "a" * 63])
def test_a_good_name_is_accepted(name: str) -> None:
    assert make_profile(name).name == name


@pytest.mark.parametrize(
    "name", ["", "1a", "-a", "a-", "a--b", "A", "a_b", "a.b", "ä", "aé", "a٣", "a b", "a/b", "a" * 64, "a\n"]
)
def test_a_bad_name_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(DomainError, match="1 to 63 lower-case letters") as caught:
        make_profile(name)
    assert (caught.value.code, caught.value.field, caught.value.status) == ("invalid_name", "name", 422)
    assert not Profile.objects.exists()


def test_a_taken_name_is_refused_also_to_another_team() -> None:
    make_profile("fast")
    for team in ("default", "other"):
        with pytest.raises(DomainError, match="choose another name") as caught:
            make_profile("fast", team=team)
        assert caught.value.code == "name_taken"
    assert Revision.objects.count() == 1


def test_the_same_spec_again_is_the_same_revision() -> None:
    profile = make_profile()
    again = revision_create(system_viewer(), profile=profile, spec=cpu_spec())
    assert again == first_revision(profile)
    assert Revision.objects.count() == 1
    assert not AuditEntry.objects.filter(action="revision.create").exists()


def test_a_changed_spec_is_the_next_revision_and_the_first_one_stays() -> None:
    profile = make_profile()
    before = first_revision(profile)
    second = revision_create(system_viewer(), profile=profile, spec=cpu_spec(batching={"max_num_seqs": 2}))
    assert second.number == 2
    assert second.spec_hash != before.spec_hash
    assert Revision.objects.get(pk=before.pk).spec == before.spec
    assert revision_of(profile) == second
    assert revision_of(profile, 1) == before
    assert spec_of(second).batching.max_num_seqs == 2


def test_going_back_to_an_old_spec_is_a_new_revision() -> None:
    profile = make_profile()
    revision_create(system_viewer(), profile=profile, spec=cpu_spec(batching={"max_num_seqs": 2}))
    third = revision_create(system_viewer(), profile=profile, spec=cpu_spec())
    assert third.number == 3
    assert third.spec_hash == first_revision(profile).spec_hash


def test_a_revision_that_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFoundError, match="Revision 7 of fast"):
        revision_of(make_profile(), 7)


def test_a_viewer_may_look_but_not_write() -> None:
    profile = make_profile()
    viewer = make_viewer("vera", default="viewer")
    assert profile_by_name(viewer, "fast") == profile
    with pytest.raises(ForbiddenError):
        profile_create(viewer, team=make_team(), name="mine", spec=cpu_spec())
    with pytest.raises(ForbiddenError):
        revision_create(viewer, profile=profile, spec=cpu_spec())
    with pytest.raises(ForbiddenError):
        profile_apply(viewer, document={"name": "fast", "spec": cpu_spec()})


def test_a_stranger_finds_nothing_whether_it_exists_or_not() -> None:
    profile = make_profile()
    stranger = make_viewer("sam", other="admin")
    assert list(profiles(stranger)) == []
    with pytest.raises(NotFoundError) as hidden:
        profile_by_name(stranger, "fast")
    with pytest.raises(NotFoundError) as missing:
        profile_by_name(stranger, "gone")
    assert hidden.value.message.replace("fast", "gone") == missing.value.message
    with pytest.raises(NotFoundError):
        revision_create(stranger, profile=profile, spec=cpu_spec())
    with pytest.raises(NotFoundError):
        profile_create(stranger, team=make_team(), name="mine", spec=cpu_spec())
    with pytest.raises(NotFoundError):
        profile_apply(stranger, document={"name": "fast", "team": "other", "spec": cpu_spec()})


@pytest.mark.parametrize(
    ("spec", "path", "words"),
    [
        (cpu_spec(model={"version": "9"}), "model.version", "tiny@9 is not a stored model version. Known: tiny@1"),
        (cpu_spec(precision={"weights": "fp8"}), "precision.weights", "no fp8 kernels"),
        (cpu_spec(precision={"weights": "int4"}), "precision.weights", "The weights are bf16"),
        (cpu_spec(batching={"max_model_len": 8193}), "batching.max_model_len", "8192 positions"),
        (cpu_spec(engine={"extra_args": {"port": 1}}), "engine.extra_args.port", "Forebay sets this option itself"),
        (cpu_spec(slo={"availability": 0.99}), "slo.availability", "not judged yet"),
    ],
)
def test_a_spec_that_cannot_be_served_is_refused_with_its_field(spec: dict[str, Any], path: str, words: str) -> None:
    make_model()
    with pytest.raises(SpecError) as caught:
        make_profile(spec=spec)
    assert caught.value.field == path
    assert words in caught.value.message
    assert not Profile.objects.exists()


def test_before_any_model_is_stored_the_refusal_says_so() -> None:
    spec, problems = spec_check(cpu_spec(), is_admin=True)
    assert spec is None
    assert "No model is stored yet" in problems[0][1]


def test_every_problem_of_a_spec_is_counted() -> None:
    make_model()
    with pytest.raises(SpecError, match=r"\(and 1 more\)") as caught:
        make_profile(spec=cpu_spec(batching={"max_model_len": 9000}, engine={"extra_args": {"port": 1}}))
    assert len(caught.value.problems) == 2


def test_an_option_that_loads_code_is_for_admins() -> None:
    make_model()
    spec = cpu_spec(engine={"extra_args": {"trust-remote-code": True}})
    with pytest.raises(SpecError, match="only an admin"):
        profile_create(make_viewer("olga"), team=make_team(), name="mine", spec=spec)
    assert profile_create(make_viewer("anna", default="admin"), team=make_team(), name="mine", spec=spec)


def test_a_gpu_spec_may_quantise_to_fp8() -> None:
    profile = make_profile(spec=gpu_spec(1) | {"precision": {"weights": "fp8"}})
    assert first_revision(profile).spec["precision"]["weights"] == "fp8"


@pytest.mark.parametrize("value", ["plain", "é ü", "a\x85b\u2028c", "'\": #"])
def test_an_exported_profile_applies_to_the_same_revision(value: str) -> None:
    profile = make_profile(spec=cpu_spec(engine={"extra_args": {"note": value}}, slo={"ttft_p99_ms": 1e-7}))
    revision = first_revision(profile)
    document = profile_document(profile_export(profile, revision))
    found, same, created = profile_apply(system_viewer(), document=document)
    assert (found, same, created) == (profile, revision, False)
    assert same.spec_hash == revision.spec_hash
    _, copy, created = profile_apply(system_viewer(), document=document | {"name": "copy"})
    assert created
    assert copy.spec_hash == revision.spec_hash


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: [", "in line 1"),
        ("- a", "kind: Profile"),
        ("kind: Model\nname: a\nspec: {}", "kind: Profile"),
        ("name: a", "a name and a spec"),
        ("name: 3\nspec: {}", "a name and a spec"),
    ],
)
def test_a_document_that_is_no_profile_says_what_is_missing(text: str, words: str) -> None:
    with pytest.raises(DomainError) as caught:
        profile_document(text)
    assert (caught.value.code, caught.value.field) == ("invalid_yaml", "yaml")
    assert words in caught.value.message


def test_a_document_of_a_team_that_is_not_there_is_not_found() -> None:
    make_model()
    with pytest.raises(NotFoundError, match="Team nowhere"):
        profile_apply(system_viewer(), document={"name": "a", "team": "nowhere", "spec": cpu_spec()})


def test_a_model_version_is_stored_once_and_its_source_may_move() -> None:
    first = make_model()
    again = model_version_register(name="tiny", label="1", source="elsewhere")
    assert again.pk == first.pk
    assert again.source == "elsewhere"


def test_the_demo_is_stored_once_and_what_a_person_made_of_it_stays() -> None:
    made = demo_seed(system_viewer(), model_path="models/demo", facts={"weights_bytes": 7})
    assert [profile.name for profile in made] == ["low-latency", "standard", "high-precision"]
    mine = Profile.objects.get(name="standard")
    Profile.objects.filter(pk=mine.pk).update(description="Ours")
    assert demo_seed(system_viewer(), model_path="models/moved", facts={}) == []
    assert Profile.objects.get(pk=mine.pk).description == "Ours"
    assert first_revision(mine).model_version.source == "models/moved"
