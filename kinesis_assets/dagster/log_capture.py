"""The capture of a run's logs on the command line."""

from __future__ import annotations

import signal
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import dagster as dg


@contextmanager
def quiet_log_capture(instance: dg.DagsterInstance) -> Iterator[None]:
    """Start the processes that mirror captured logs in such a way that Ctrl-C does not reach them.

    A terminal sends Ctrl-C to every process of a command. The process with which Dagster watches the
    mirroring would print a traceback. It ends with the capture.

    Args:
        instance: The instance whose runs are executed in this process within the context.
    """
    manager = instance.compute_log_manager
    capture_logs = manager.capture_logs

    @contextmanager
    def capture_quietly(log_key: Sequence[str]) -> Iterator[Any]:
        with ExitStack() as capture:
            # A process inherits the signals that the thread which starts it blocks.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                context = capture.enter_context(capture_logs(log_key))
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            yield context

    manager.capture_logs = capture_quietly  # type: ignore[method-assign]
    try:
        yield
    finally:
        manager.capture_logs = capture_logs  # type: ignore[method-assign]
