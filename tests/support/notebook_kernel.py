"""A Jupyter kernel without a browser, started as by a server whose PATH leads to another Python."""

from __future__ import annotations

import ast
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_client import KernelManager

from support.clean_environment import path_of_others

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_client import BlockingKernelClient

_SECONDS = 600
"""The limit of a cell."""

_OTHER_PYTHON = """\
#!/bin/sh
echo "this python3 has none of the kernel's packages" >&2
exit 1
"""


@dataclass(frozen=True)
class NotebookKernel:
    """A running kernel of this interpreter."""

    client: BlockingKernelClient

    @classmethod
    @contextmanager
    def started(cls, folder: Path) -> Iterator[NotebookKernel]:
        """Start a kernel without this interpreter's folder on its PATH, and end it afterwards.

        Args:
            folder: An empty folder for the files of Jupyter and the other `python3`.
        """
        manager = KernelManager(kernel_name="python3", connection_file=str(folder / "kernel.json"))
        manager.start_kernel(env=_environment(folder), cwd=str(folder))
        client = manager.client()
        try:
            client.start_channels()
            client.wait_for_ready(_SECONDS)
            yield cls(client)
        finally:
            client.stop_channels()
            manager.shutdown_kernel()
            manager.cleanup_resources()

    def value_of(self, expression: str, *, after: str) -> Any:
        """Execute a cell, and return the value of an expression after it."""
        reply = self.client.execute_interactive(
            after, user_expressions={"value": expression}, timeout=_SECONDS, output_hook=lambda _: None
        )["content"]
        assert reply["status"] == "ok", "\n".join(reply["traceback"])
        value = reply["user_expressions"]["value"]
        assert value["status"] == "ok", "\n".join(value["traceback"])
        return ast.literal_eval(value["data"]["text/plain"])


def _environment(folder: Path) -> dict[str, str]:
    other = folder / "other" / "python3"
    other.parent.mkdir()
    other.write_text(_OTHER_PYTHON)
    other.chmod(0o755)
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "VIRTUAL_ENV"))
    }
    path = f"{other.parent}{os.pathsep}{path_of_others()}"
    return env | {"PATH": path, "IPYTHONDIR": str(folder / "ipython")}
