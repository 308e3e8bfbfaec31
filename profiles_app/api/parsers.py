"""Reads and writes YAML bodies."""

from collections.abc import Mapping
from typing import Any

import yaml
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer

from profiles_app.errors import DomainError
from profiles_app.services.profiles import profile_document

MOST_YAML_BYTES = 64 * 1024


class YamlParser(BaseParser):
    """A profile's YAML document. Aliases are refused: a few lines of them unfold to more than memory holds."""

    media_type = "application/yaml"

    def parse(
        self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The document. Raises DomainError."""
        raw = stream.read(MOST_YAML_BYTES + 1)
        if len(raw) > MOST_YAML_BYTES:
            raise DomainError("body_too_large", f"A YAML body may have {MOST_YAML_BYTES} bytes at most.", status=413)
        try:
            text = raw.decode()
            has_alias = any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text))
        except UnicodeDecodeError as error:
            raise DomainError("invalid_yaml", "The body is not UTF-8 text.", status=422, field="yaml") from error
        except yaml.YAMLError:
            has_alias = False
        if has_alias:
            raise DomainError(
                "invalid_yaml", "Aliases (*name) are not read; write the value out.", status=422, field="yaml"
            )
        return profile_document(text)


class TextYamlParser(YamlParser):
    """The same under YAML's older media type."""

    media_type = "text/yaml"


class YamlTextRenderer(BaseRenderer):
    """Text that is YAML already."""

    media_type = "text/yaml"
    format = "yaml"
    charset = "utf-8"

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        """The response's text."""
        return str(data).encode()
