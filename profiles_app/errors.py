"""The refusal: the one error type that is meant for a person."""


class DomainError(Exception):
    """A request that the rules refuse.

    ``code`` is stable and machine-readable; ``message`` is a sentence that says what to do. ``status`` is the HTTP
    status of the refusal; ``field`` names the spec path or form field that it is about, if there is one.
    """

    def __init__(self, code: str, message: str, *, status: int = 409, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.field = field


class NotFoundError(DomainError):
    """The object does not exist, or belongs to a team that the viewer cannot see: the two look the same."""

    def __init__(self, what: str) -> None:
        super().__init__("not_found", f"{what} was not found.", status=404)


class ForbiddenError(DomainError):
    """The viewer sees the object, but their role does not allow this."""

    def __init__(self, role: str) -> None:
        super().__init__("forbidden", f"This needs the role {role} in the team.", status=403)
