"""An instance for several runs at once in this process. A deployment has one run in a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dagster as dg


def for_runs_in_threads(instance: dg.DagsterInstance) -> dg.DagsterInstance:
    """Return an instance whose runs do not configure Python's logging.

    `logging.config` waits for the locks of all handlers while it holds the lock of the module. A run that
    logs in another thread holds the former and waits for the latter, which is a deadlock.
    """
    setattr(instance, "get_yaml_python_handlers", list)  # noqa: B010  # a method, which no type checker lets set
    return instance
