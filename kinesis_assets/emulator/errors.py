"""The errors of the Kinesis API. Each class has the name that the service returns as `__type`."""

from __future__ import annotations


class ServiceError(Exception):
    """The service refuses a request. The response is HTTP 400 with the class name and the message."""


class AccessDeniedException(ServiceError):
    """The caller's account is not allowed to call the operation on another account's stream."""


class DryRunOperationException(ServiceError):
    """The request is valid. It was not carried out because DryRun is set."""

    def __init__(self) -> None:
        super().__init__("The request would have succeeded, but DryRun is set.")


class ExpiredIteratorException(ServiceError):
    """The shard iterator is older than five minutes."""


class ExpiredNextTokenException(ServiceError):
    """The pagination token is older than five minutes."""


class InvalidArgumentException(ServiceError):
    """An argument is well-formed but invalid for this stream, shard or operation."""


class LimitExceededException(ServiceError):
    """The request would exceed a limit of the account."""


class ResourceInUseException(ServiceError):
    """The resource already exists."""


class ResourceNotFoundException(ServiceError):
    """The stream or shard does not exist."""


class SerializationException(ServiceError):
    """The body is not JSON, or a member has the wrong type."""


class UnknownOperationException(ServiceError):
    """The operation does not exist, or the request does not use the endpoint's protocol."""


class ValidationException(ServiceError):
    """A member is missing, or violates a constraint on its length, range, pattern or value."""
