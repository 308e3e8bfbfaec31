"""The exact command of a spec, line by line, for people: secrets masked, differences marked. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from profiles_app.specs.engine_args import Endpoint, display_command, engine_command
from profiles_app.specs.schema import Spec

LINE_END = " \\"
CHOSEN_LATER = {"--port 0": "--port (chosen at the start)"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the command. ``change`` is "", "ch" (other value), "add" or "del"."""

    text: str
    change: str = ""


def command_lines(
    spec: Spec, *, name: str, model_source: str, argv_prefix: Sequence[str], base: Sequence[Line] = ()
) -> list[Line]:
    """The command of one replica of ``spec``; lines that ``base`` has not, or has otherwise, are marked."""
    endpoint = Endpoint(host="127.0.0.1", port=0, served_name=name or "profile-name", identity="(replica id)")
    command = engine_command(spec, model_source=model_source, endpoint=endpoint, config_path="config.yaml")
    texts = [part.strip() for part in display_command(command, argv_prefix=argv_prefix).split(LINE_END + "\n")]
    texts = [CHOSEN_LATER.get(text, text) for text in texts]
    if not base:
        return _continued([Line(text) for text in texts])
    old = {_key(line.text): line.text.removesuffix(LINE_END).strip() for line in base}
    new = {_key(text) for text in texts}
    lines = [Line(text, _change(text, old)) for text in texts]
    gone = [Line(text, "del") for key, text in old.items() if key not in new]
    return _continued(lines) + gone


def _key(text: str) -> str:
    """What names the line: the flag without its value, or the variable."""
    word = text.strip().removesuffix(LINE_END).split(" ")[0]
    flag = word.removeprefix("--no-").removeprefix("--")
    return flag.split("=")[0]


def _change(text: str, old: dict[str, str]) -> str:
    before = old.get(_key(text))
    if before is None:
        return "add"
    return "" if before == text else "ch"


def _continued(lines: list[Line]) -> list[Line]:
    """Lines as a shell reads them: indented after the program, each but the last continued."""
    program = next((place for place, line in enumerate(lines) if " serve " in line.text), 0)
    last = len(lines) - 1
    return [
        Line(("  " if place > program else "") + line.text + (LINE_END if place < last else ""), line.change)
        for place, line in enumerate(lines)
    ]
