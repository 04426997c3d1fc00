"""`dg check` on a project whose YAML is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.harness.waiting import SECONDS

PASSWORD = "PASS/WORD"  # noqa: S105  # means nothing, but must be found nowhere
YAML = """type: kinesis_assets.KinesisStreamComponent
attributes:
  stream: {stream}
  table: {table}
"""
ROOT = '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "lake"\n'


def test_dg_check_names_what_is_wrong_and_where_and_repeats_no_password(tmp_path: Path) -> None:
    defs = tmp_path / "lake" / "defs"
    tables = {"clicks": "/lake/clicks", "orders": f"s3://AKIA:{PASSWORD}@lake/orders", "views": "/lake/views"}
    for stream, table in tables.items():
        (defs / stream).mkdir(parents=True)
        (defs / stream / "defs.yaml").write_text(YAML.format(stream=stream, table=table))
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "lake"\nversion = "1"\n{ROOT}')
    (tmp_path / "lake" / "__init__.py").touch()
    (tmp_path / "lake" / "definitions.py").write_text(
        "import dagster as dg\nfrom pathlib import Path\n"
        "defs = dg.load_from_defs_folder(path_within_project=Path(__file__).parent)\n"
    )
    check = [Path(sys.executable).with_name("dg"), "check", "defs", "--no-check-yaml"]
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS, check=False)
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert "s3://bucket/prefix" in output
    assert "Error while loading component orders" in output
    assert PASSWORD not in output
