"""One Django start for all that must be true before the first page: schemas, static files, the first link.

Run as a module; its last line of output is JSON.
"""

import hashlib
import io
import json
import sys
from pathlib import Path

STAMP = ".forebay-stamp"


def main() -> int:
    """Migrate every database, collect changed static files, and say the one-time link if there is no user."""
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    for alias in settings.DATABASES:
        call_command("migrate", database=alias, interactive=False, verbosity=0)
    collect_static(Path(settings.STATIC_ROOT))
    output = io.StringIO()
    call_command("setup_link", stdout=output)
    sys.stdout.write(json.dumps({"setup_link": output.getvalue().strip() or None}) + "\n")
    return 0


def collect_static(root: Path) -> None:
    """Run `collectstatic` when a source file is new, gone or changed since the last time."""
    from django.core.management import call_command

    wanted = sources_digest()
    stamp = root / STAMP
    if stamp.exists() and stamp.read_text() == wanted:
        return
    call_command("collectstatic", interactive=False, clear=root.exists(), verbosity=0)
    stamp.write_text(wanted)


def sources_digest() -> str:
    """A digest of the names, sizes and times of all static source files."""
    from django.contrib.staticfiles.finders import get_finders

    digest = hashlib.sha256()
    for finder in get_finders():
        for path, storage in finder.list([]):
            facts = Path(storage.path(path)).stat()
            digest.update(f"{path} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
