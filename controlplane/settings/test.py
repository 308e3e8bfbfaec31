"""Settings of the unit and integration tests: databases in a folder of their own, plain static files."""

import atexit
import os
import shutil
import tempfile

if "FOREBAY_DATA_DIR" not in os.environ:
    os.environ["FOREBAY_DATA_DIR"] = tempfile.mkdtemp(prefix="forebay-test-")
    atexit.register(shutil.rmtree, os.environ["FOREBAY_DATA_DIR"], ignore_errors=True)
os.environ.setdefault("FOREBAY_SECRET_KEY", "only-the-tests-use-this-key")
os.environ.setdefault("FOREBAY_NODE_NAME", "node-a")

from controlplane.settings.base import *  # noqa: F403 - the variables above must be set first
from controlplane.settings.base import DATABASES, ENV

# Files, as in production: threads of one test see one database, and wait for each other's writes.
for _alias, _database in DATABASES.items():
    _database["TEST"] = {"NAME": ENV.data_dir / f"test-{_alias}.sqlite3"}

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
CELERY_BROKER_URL = "memory://"
CELERY_BROKER_TRANSPORT_OPTIONS = {}
