"""The world of the integration tests: two teams, one person a role, a model version and a profile."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from celery import current_app
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.cache import cache

from profiles_app.models import ModelVersion, Profile, Team
from profiles_app.selectors import viewer_for
from profiles_app.services.people import membership_set
from profiles_app.services.profiles import model_version_register, profile_create
from tests.factories import Wakeup

PASSWORD = "correct horse battery"


@pytest.fixture(scope="session", autouse=True)
def static_root() -> None:
    """The folder of collected static files, which the middleware wants to see."""
    Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)


@pytest.fixture
def team(db: None) -> Team:
    """The team that owns everything of the test."""
    return Team.objects.get_or_create(slug="default", defaults={"name": "Default"})[0]


@pytest.fixture
def other_team(db: None) -> Team:
    """A team whose members must see nothing of ``team``."""
    return Team.objects.create(slug="other", name="Other")


def _member(name: str, team: Team, role: str) -> Any:
    user = get_user_model().objects.create_user(name, password=PASSWORD)
    membership_set(user=user, team=team, role=role)
    return user


@pytest.fixture
def viewer_user(team: Team) -> Any:
    """May look."""
    return _member("vera", team, "viewer")


@pytest.fixture
def operator_user(team: Team) -> Any:
    """May operate."""
    return _member("otto", team, "operator")


@pytest.fixture
def admin_user(team: Team) -> Any:
    """May administer."""
    return _member("ada", team, "admin")


@pytest.fixture
def stranger(other_team: Team) -> Any:
    """Administers another team."""
    return _member("stan", other_team, "admin")


@pytest.fixture
def model_version(db: None) -> ModelVersion:
    """A small model's weights."""
    return model_version_register(
        name="tiny", label="v1", source="/models/tiny", licence="Apache-2.0", max_context=8192, weights_note="made up"
    )


@pytest.fixture
def spec(model_version: ModelVersion) -> dict[str, Any]:
    """A spec of one small engine on the CPU."""
    return {
        "model": {"name": model_version.model.name, "version": model_version.label},
        "batching": {"max_model_len": 2048, "max_num_seqs": 4, "kv_cache_mib": 128},
    }


@pytest.fixture
def profile(team: Team, operator_user: Any, spec: dict[str, Any]) -> Profile:
    """A stored profile with one revision."""
    return profile_create(viewer_for(operator_user), team=team, name="standard", spec=spec, description="For tests")


@pytest.fixture(autouse=True)
def fresh_cache() -> Iterator[None]:
    """Counts of one test's log-in attempts are not the next one's."""
    yield
    cache.clear()


@pytest.fixture
def as_user() -> Callable[[Any], Any]:
    """An API client that acts for a user."""
    from rest_framework.test import APIClient

    def client(user: Any) -> Any:
        made = APIClient()
        made.force_authenticate(user)
        return made

    return client


@pytest.fixture
def data_dir(tmp_path: Path, settings: Any) -> Path:
    """A data directory of the test's own; nothing listens on its Valkey socket unless the test sees to it."""
    folder = tmp_path / "data"
    settings.FOREBAY = replace(settings.FOREBAY, data_dir=folder)
    settings.FOREBAY_DATA_URL = f"unix://{folder}/run/valkey.sock?db=3"
    return folder


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Wakeup]:
    """The wake-ups that were handed to Celery, in order."""
    found: list[Wakeup] = []

    def note(name: str, args: tuple[object, ...] = (), queue: str = "", **_: object) -> None:
        found.append(Wakeup(name, tuple(args), queue))

    monkeypatch.setattr(current_app, "send_task", note)
    return found
