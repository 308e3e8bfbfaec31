"""The HTTP client of the REST API: answers, refusals with their sentence, and a server that cannot be reached."""

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from controlplane.client.config import Login

TIMEOUT_SECONDS = 30.0
CONNECT_SECONDS = 5.0
MOST_PAGES = 200
PAGE_SIZE = "500"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class RefusedError(Exception):
    """The server said no: a stable code, a sentence, and one (field, sentence) for each detail."""

    def __init__(self, code: str, message: str, *, details: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details


class UnreachableError(Exception):
    """No answer that can be used came from the address."""


class Client:
    """One connection to one Forebay."""

    def __init__(self, login: Login) -> None:
        headers = {"Accept": "application/json", "User-Agent": "forebay"}
        if login.token:
            headers["Authorization"] = f"Token {login.token}"
        self.url = login.url
        timeout = httpx.Timeout(TIMEOUT_SECONDS, connect=CONNECT_SECONDS)
        try:
            # A proxy of the environment must not be asked for this very host.
            outside = httpx.URL(login.url).host not in LOOPBACK
            self._http = httpx.Client(
                base_url=f"{login.url}/api/v1/", headers=headers, timeout=timeout, trust_env=outside
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise UnreachableError(f"{login.url} is no address: {error}.") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        """The JSON at ``path`` below /api/v1/. Raises RefusedError, UnreachableError."""
        return self._json(self._send("GET", path, params=params))

    def text(self, path: str, *, accept: str) -> str:
        """The text at ``path``."""
        return self._send("GET", path, headers={"Accept": accept}).text

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send ``body`` as JSON and return the answer's; None where it has none."""
        return self._json(self._send(method, path, json=dict(body or {})))

    def send_yaml(self, path: str, text: bytes) -> Any:
        """Send a YAML document."""
        return self._json(self._send("POST", path, content=text, headers={"Content-Type": "application/yaml"}))

    def rows(self, path: str, params: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """Every row of a list, page by page."""
        for page in range(1, MOST_PAGES + 1):
            body = self.get(path, {**(params or {}), "page": page, "page_size": PAGE_SIZE})
            yield from body["results"]
            if not body["next"]:
                return

    def _send(self, method: str, path: str, **kwargs: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, path, **kwargs)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            words = str(error) or type(error).__name__
            raise UnreachableError(f"{self.url} does not answer: {words}.") from error
        if answer.is_success:
            return answer
        raise _failure(answer, url=self.url)

    def _json(self, answer: httpx.Response) -> Any:
        if not answer.content:
            return None
        try:
            return answer.json()
        except ValueError as error:
            raise UnreachableError(f"{self.url} answers, but not as Forebay's API does.") from error


def _failure(answer: httpx.Response, *, url: str) -> RefusedError | UnreachableError:
    try:
        error = answer.json()["error"]
        code, message, details = str(error["code"]), str(error["message"]), error.get("details")
    except (ValueError, LookupError, TypeError):
        return UnreachableError(f"{url} answered {answer.status_code}, and not as Forebay's API does.")
    if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
        return UnreachableError(f"{url} answered {answer.status_code}: {message}.")
    return RefusedError(code, message, details=tuple(_details(details)))


def _details(details: Any, *, path: str = "") -> Iterator[tuple[str, str]]:
    """Details as (field, sentence): a list of {field, message}, or the API's own tree of field errors."""
    if isinstance(details, list):
        for item in details:
            yield from _details(item, path=path)
    elif isinstance(details, dict) and isinstance(details.get("message"), str):
        yield str(details.get("field") or path), details["message"]
    elif isinstance(details, dict):
        for name, item in details.items():
            yield from _details(item, path=f"{path}.{name}" if path else str(name))
