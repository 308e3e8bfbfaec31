"""Ends a running request from outside its task: the client left, or a drain deadline passed."""

import asyncio
from types import TracebackType
from typing import Literal, Self

Reason = Literal["client_gone", "cut"]


class Interrupted(Exception):
    """Raised at the end of an Interruptible block that was fired, with the reason."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


class Interruptible:
    """A block of the current task that `fire` can end at its next await.

    Works as asyncio.timeout does: the task is cancelled, and on the way out the cancellation
    becomes Interrupted, unless somebody else cancelled the task too.
    """

    def __init__(self) -> None:
        self.reason: Reason | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task else 0
        return self

    def fire(self, reason: Reason) -> bool:
        """End the block; False when it is over, not begun, or fired before."""
        if self._task is None or self.reason is not None:
            return False
        self.reason = reason
        self._task.cancel()
        return True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        task, self._task = self._task, None
        if task is None or self.reason is None:
            return
        if task.uncancel() <= self._cancelling and kind is not None:
            raise Interrupted(self.reason) from error
