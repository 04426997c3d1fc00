"""The images of docs/kubernetes do their work, where a container engine runs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kinesis_assets
from benchmarks.harness.waiting import wait_until
from support.dg_project import DgProject
from support.kubernetes_executor import LOOPBACK, Driver, executor_variables, imported_from

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(kinesis_assets.__file__).parents[1]
FILES = PROJECT / "docs" / "kubernetes"
USER_CODE, EXECUTOR = (f"localhost/kinesis-assets-test/{name}:test" for name in ("user-code", "executor"))
PYTHON = Path("/opt/environment/bin/python")

CLICKS = """
type: kinesis_assets.KinesisStreamComponent
attributes:
  stream: clicks
  table: s3://my-lake/raw/clicks
  region_name: us-east-1
"""

COUNT = """
from kinesis_assets.spark.session import start_session
print(start_session({"spark.master": "local[1]"}).range(3).count())
"""


class Engine:
    """A container engine whose command is that of Docker."""

    def __init__(self, program: str) -> None:
        self._program = program

    def succeeds(self, *arguments: str | Path) -> bool:
        return self._done(*arguments).returncode == 0

    def run(self, *arguments: str | Path) -> str:
        """Run a command of the engine, which must succeed, and return its output."""
        done = self._done(*arguments)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def _done(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._program, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def engine() -> Engine:
    """A container engine that has the base image. Without one the tests are skipped, even in CI."""
    engines = [Engine(program) for program in ("docker", "podman") if shutil.which(program)]
    running = next((engine for engine in engines if engine.succeeds("info")), None)
    if running is None:
        pytest.skip("no container engine runs here: neither `docker info` nor `podman info` succeeds")
    (base,) = {
        re.findall(r"^ARG PYTHON_IMAGE=(.+)$", path.read_text(), re.MULTILINE)[0]
        for path in FILES.glob("*.Dockerfile")
    }
    if not running.succeeds("image", "inspect", base) and not running.succeeds("pull", base):
        pytest.skip(f"the base image {base} is not on this machine and cannot be downloaded")
    return running


@pytest.fixture(scope="module")
def images(engine: Engine, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Both images, built from a project with the stream `clicks`."""
    project = DgProject.create(tmp_path_factory.mktemp("images") / "project", {})
    (project.root / "dist").mkdir()
    shutil.copy(wheel, project.root / "dist")
    shutil.copy(PROJECT / "constraints.txt", project.root)
    shutil.copy(FILES / "executor.sh", project.root)
    (project.defs / "clicks").mkdir()
    (project.defs / "clicks" / "defs.yaml").write_text(CLICKS)
    build = ["build", "--network", "host"]
    try:
        engine.run(*build, "-f", FILES / "user-code.Dockerfile", "-t", USER_CODE, project.root)
        of_user_code = ["--build-arg", f"USER_CODE_IMAGE={USER_CODE}"]
        engine.run(*build, *of_user_code, "-f", FILES / "executor.Dockerfile", "-t", EXECUTOR, project.root)
        yield
    finally:
        engine.succeeds("image", "rm", "-f", USER_CODE, EXECUTOR)  # if they have been built


@pytest.mark.usefixtures("images")
def test_the_code_location_becomes_healthy_and_spark_starts_beside_it(engine: Engine) -> None:
    serve = f"dagster api grpc -h {LOOPBACK} -p 3030 --module-name lake.definitions".split()
    container = engine.run("run", "-d", USER_CODE, *serve).split()[-1]
    try:
        health = ["dagster", "api", "grpc-health-check", "-p", "3030"]
        wait_until(lambda: engine.succeeds("exec", container, *health))
        counted = engine.run("exec", container, "python", "-c", COUNT)
        assert counted.split()[-1] == "3"
    finally:
        engine.run("rm", "-f", container)


@pytest.mark.usefixtures("images")
def test_an_executor_runs_tasks_with_the_packages_of_its_image(engine: Engine, tmp_path: Path) -> None:
    with Driver(tmp_path / "driver", PYTHON) as driver:
        variables = executor_variables(driver.address)
        options = [part for name, value in variables.items() for part in ("-e", f"{name}={value}")]
        container = engine.run("run", "-d", "--network", "host", *options, EXECUTOR, "executor").split()[-1]
        try:
            files = driver.result()
        finally:
            engine.run("rm", "-f", container)
    assert imported_from(files, PYTHON.parents[1])
