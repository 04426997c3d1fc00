"""The errors of invalid settings, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_MAX_SHOWN = 80
"""The maximum number of characters of an invalid value that an error repeats."""

_BOUNDS = {
    "greater_than": "above {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than_equal": "at most {le:g}",
}
"""By pydantic's type of the error, how a bound is worded."""


def reason_of(error: ValidationError, name: str | None = None) -> str:
    """Return in one line what is wrong with some settings.

    Args:
        error: The error of their validation.
        name: The setting, if only its value was validated.
    """
    reasons: dict[str, str] = {}
    for details in error.errors():
        setting = name or ".".join(map(str, details["loc"][:1]))  # none if several do not fit together
        reasons.setdefault(setting, _reason(details, setting))  # a union has an error for each of its types
    return "; ".join(reasons.values())


def _reason(details: ErrorDetails, name: str) -> str:
    context = details.get("ctx", {})
    if isinstance(context.get("error"), InvalidInput):
        return str(context["error"])
    match details["type"]:
        case "missing":
            return f"{name} is missing"
        case "extra_forbidden":
            return f"unknown setting {name[:_MAX_SHOWN]}"
        case bound if bound in _BOUNDS:
            wanted = f"must be {_BOUNDS[bound].format_map(context)}"
        case _:
            wanted = details["msg"].replace("Input should be", "must be")
    return f"{name} {wanted}, not {repr(details['input'])[:_MAX_SHOWN]}"
