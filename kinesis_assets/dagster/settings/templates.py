"""Templates in a component's YAML: an expression without a value is an error, and a text stays a text.

Dagster renders an undefined variable within a text as nothing, and an environment variable that is not set
as None: `"{{ lake }}/clicks"` would become `/clicks`, and `"{{ env.LAKE }}/clicks"` `None/clicks`. It also
evaluates each text as a Python literal, so that a stream named `"2024"` would become a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined, Undefined, nodes
from jinja2.exceptions import TemplateSyntaxError, UndefinedError
from pydantic import BaseModel

from kinesis_assets.errors import InvalidInput

if TYPE_CHECKING:
    import dagster as dg

_MARKS = ("{{", "{%", "{#")

_MAX_SHOWN = 80
"""The maximum number of characters of a template that an error repeats."""


def is_template(value: Any) -> bool:
    """Whether a value of a YAML is a text with a template."""
    return isinstance(value, str) and any(mark in value for mark in _MARKS)


def has_template(value: Any) -> bool:
    """Whether a value of a YAML is a template, or has one in its lists and maps."""
    if isinstance(value, dict):
        return any(map(has_template, value.values()))
    return any(map(has_template, value)) if isinstance(value, list | tuple) else is_template(value)


@dataclass(frozen=True, slots=True)
class Renderer:
    """Renders the templates of one setting.

    Attributes:
        setting: The setting's name in the YAML.
        context: The context with the variables.
        is_text: Whether the setting may be a text. Otherwise Dagster evaluates the value of a single
            expression as a Python literal, so that an environment variable may contain a list or a map.
        required: Whether the setting must have a value.
    """

    setting: str
    context: dg.ResolutionContext
    is_text: bool
    required: bool

    def render(self, value: Any) -> Any:
        """Return a value of the YAML with its templates rendered, also those in lists and maps.

        Raises:
            InvalidInput: A template is malformed, or an expression in it has no value.
        """
        return self._rendered(value, keep_text=self.is_text)

    def _rendered(self, value: Any, *, keep_text: bool) -> Any:
        if isinstance(value, BaseModel):
            value = value.model_dump(exclude_unset=True)
        if isinstance(value, dict):
            return {key: self._rendered(each, keep_text=True) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self._rendered(each, keep_text=True) for each in value]
        return self._value(value, keep_text=keep_text) if is_template(value) else value

    def _value(self, template: str, *, keep_text: bool) -> Any:
        values: list[Any] = []

        def record(value: Any) -> Any:
            if isinstance(value, Undefined):
                str(value)  # raises an error that names the variable
            values.append(value)
            return value

        # The result goes into a setting, not into HTML.
        environment = Environment(undefined=StrictUndefined, finalize=record)  # noqa: S701
        try:
            is_single = _is_single_expression(environment.parse(template))
            text = environment.from_string(template).render(**self.context.scope)
        except (UndefinedError, TemplateSyntaxError) as error:
            raise self._invalid(template, f"{error.message}") from None
        except Exception as error:  # of a function that the template calls
            raise self._invalid(template, " ".join(str(error).split())) from error
        if any(value is None for value in values) and (self.required or not is_single):
            raise self._invalid(
                template, "its value is None; set the environment variable that it reads, or correct it"
            )
        if not is_single:
            if template.lstrip().startswith("{{") and str(values[0]) == "":
                raise self._invalid(template, "the expression at its beginning is empty")
            return text
        if keep_text and isinstance(values[-1], str):
            return values[-1]
        return self.context.resolve_value(template)

    def _invalid(self, template: str, reason: str) -> InvalidInput:
        return InvalidInput(f"{self.setting}: template {template[:_MAX_SHOWN]!r}: {reason}")


def _is_single_expression(template: nodes.Template) -> bool:
    """Whether a template is one expression, so that its value need not be a text."""
    return (
        len(template.body) == 1
        and isinstance(output := template.body[0], nodes.Output)
        and len(output.nodes) == 1
        and not isinstance(output.nodes[0], nodes.TemplateData)
    )
