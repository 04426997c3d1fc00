"""The errors of the Kinesis API: each class is named as the `__type` that the service answers with."""

from __future__ import annotations


class ServiceError(Exception):
    """A request that the service refuses, answered as HTTP 400 with the class' name and the message."""


class AccessDeniedException(ServiceError):
    """The caller's account may not do that with a stream of another account."""


class DryRunOperationException(ServiceError):
    """The request was sound, and was not carried out because it asked for a dry run."""

    def __init__(self) -> None:
        super().__init__("The request would have succeeded, but DryRun is set.")


class ExpiredIteratorException(ServiceError):
    """The shard iterator is older than five minutes."""


class ExpiredNextTokenException(ServiceError):
    """The pagination token is older than five minutes."""


class InvalidArgumentException(ServiceError):
    """An argument is well-formed, but not one that this stream, shard or operation can take."""


class LimitExceededException(ServiceError):
    """The request would exceed a limit of the account."""


class ResourceInUseException(ServiceError):
    """The resource exists already."""


class ResourceNotFoundException(ServiceError):
    """No such stream or shard."""


class SerializationException(ServiceError):
    """The body is not JSON, or a member is not of its type."""


class UnknownOperationException(ServiceError):
    """No such operation, or not the protocol that this endpoint speaks."""


class ValidationException(ServiceError):
    """A member is missing, or outside its bounds of length, range, pattern or value."""
