"""The wheel, and an environment in which it is installed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kinesis_assets
from support.clean_environment import run

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(kinesis_assets.__file__).parents[1]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder)
    run(sys.executable, "-m", "pip", "wheel", *options, PROJECT, cwd=folder)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def shop(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the tutorial, with the environment that its first commands create.

    It has the newest releases that the package allows, as that of a new user.
    """
    folder = tmp_path_factory.mktemp("tutorial") / "shop"
    folder.mkdir()
    run(sys.executable, "-m", "venv", ".venv", cwd=folder)
    programs = folder / ".venv" / "bin"
    run(PROJECT / ".ci" / "install", folder / ".venv", f"{wheel}[demo]", cwd=folder)
    run(programs / "pip", "check", cwd=folder)
    yield folder
    shutil.rmtree(folder)  # it takes a gigabyte


@pytest.fixture(scope="session")
def installed(shop: Path) -> Path:
    """The programs of an environment in which only the wheel and its dependencies are installed."""
    return shop / ".venv" / "bin"
