"""A command whose extra is not installed reports how to install it in one line."""

from __future__ import annotations

import sys

import pytest

from support.command_line import single_line_error


@pytest.mark.parametrize(
    ("command", "module", "extra"),
    [
        ("local", "h2", "emulator"),
        ("local", "uvicorn", "emulator"),
        ("demo", "uvicorn", "demo"),
        ("demo", "duckdb", "demo"),
        ("dev", "dagster_webserver", "demo"),
    ],
)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    cli, command, module, extra, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    done = cli(command)
    assert done.exit_code == 2
    assert f"{module}: not installed" in single_line_error(done.err)
    assert f"pip install 'kinesis-assets[{extra}]'" in done.err


@pytest.mark.parametrize("module", ["h2", "uvicorn"])
def test_the_test_kit_without_its_extra_names_the_command_that_installs_it(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    loaded = [name for name in sys.modules if name.startswith(("kinesis_assets.emulator", f"{module}."))]
    for name in loaded:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'kinesis-assets\[emulator\]'"):
        import kinesis_assets.emulator  # noqa: F401, PLC0415
