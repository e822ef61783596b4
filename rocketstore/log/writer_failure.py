"""WriterFailure: the first error after which a store's writer takes no more messages."""

from __future__ import annotations

from rocketstore.disk.held_directory import HeldDirectory
from rocketstore.errors import StoreError
from rocketstore.kernels.plain_put import PlainPut
from rocketstore.messages.put_result import PutMessageResult


class WriterFailure:
    """Keeps the first error of a writer and of its threads. Unwritten data may be lost, even if a later flush succeeds.

    Attributes: is_raised: whether a caller has seen the error as an exception.
    """

    def __init__(self, place: HeldDirectory, plain_put: PlainPut[PutMessageResult]) -> None:
        """Parameters: place: the root of the store. plain_put: is closed by the first error."""
        self.is_raised = False
        self._place = place
        self._plain_put = plain_put
        self._error: BaseException | None = None

    @property
    def is_set(self) -> bool:
        """Whether there was an error."""
        return self._error is not None

    def set_error(self, error: BaseException, *, is_raised: bool) -> None:
        """Stop the writer with an error. Errors after the first one are ignored.

        Parameters: is_raised: whether the error is raised in a caller's thread.
        """
        self._error = self._error or self._explained(error)
        self._plain_put.close()
        self.is_raised = self.is_raised or is_raised

    def require_none(self) -> None:
        """Raise StoreError if there was an error."""
        if self._error is not None:
            self.is_raised = True
            raise StoreError(
                f"{self._place.path}: takes no more messages after {self._error!r}: close it and open it again"
            ) from self._error

    def _explained(self, error: BaseException) -> BaseException:
        """Return the error that says where the store was moved, if that is why another error was raised."""
        if isinstance(error, OSError | StoreError):
            try:
                self._place.require_in_place()
            except StoreError as moved:
                moved.__cause__ = error
                return moved
            except OSError:
                return error
        return error
