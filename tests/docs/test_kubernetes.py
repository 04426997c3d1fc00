"""docs/kubernetes.md and its files agree with each other, with dagster.yaml and with the settings."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.servers.spark_cluster import SPARK_HOME
from kinesis_assets.dagster.settings.spark_settings import SparkSettings
from kinesis_assets.dagster.settings.stream_settings import StreamSettings
from kinesis_assets.spark.local_settings import PYTHON
from kinesis_assets.spark.session import prepare
from support.clean_environment import clean_environment
from support.dagster_components import dagsters_own_warnings, loaded
from support.kubernetes_executor import LOOPBACK, Driver, executor_variables, imported_from

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "kubernetes.md").read_text()
FILES = PROJECT / "docs" / "kubernetes"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


INSTANCE = yaml.safe_load((PROJECT / "dagster.yaml").read_text())
VALUES = yaml.safe_load((FILES / "values.yaml").read_text())
MANIFESTS = {each["kind"]: each for each in yaml.safe_load_all((FILES / "spark.yaml").read_text())}
DOCKERFILES = {path.name: path.read_text() for path in FILES.glob("*.Dockerfile")}
(STREAM,) = map(yaml.safe_load, blocks("yaml"))
COMMANDS = [shlex.split(line) for text in blocks("sh") for line in text.splitlines()]
SPARK = STREAM["attributes"]["spark_config"]
(LOCATION,) = VALUES["dagster-user-deployments"]["deployments"]
RUNS = VALUES["runLauncher"]["config"]["k8sRunLauncher"]["runK8sConfig"]


def camel_case(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings with the names that the chart uses."""
    return {re.sub(r"_(\w)", lambda match: match[1].upper(), name): value for name, value in settings.items()}


def constrained(package: str) -> str:
    (version,) = re.findall(rf"^{package}==(.+)$", (PROJECT / "constraints.txt").read_text(), re.MULTILINE)
    return str(version)


def test_the_instance_has_the_settings_of_dagster_yaml() -> None:
    coordinator = VALUES["dagsterDaemon"]["runCoordinator"]["config"]["queuedRunCoordinator"]
    assert coordinator == camel_case(INSTANCE["concurrency"]["runs"])
    instance = VALUES["additionalInstanceConfig"]
    assert instance == {name: INSTANCE[name] for name in ("run_monitoring", "run_retries")}
    for name in instance:  # the chart must not write the same block
        assert VALUES["dagsterDaemon"][next(iter(camel_case({name: 0})))] == {"enabled": False}


def test_a_run_can_commit_before_it_is_killed_and_dagster_waits_for_that() -> None:
    stop_timeout = StreamSettings.model_fields["stop_timeout"].default
    grace = RUNS["podSpecConfig"]["terminationGracePeriodSeconds"]
    limit = VALUES["additionalInstanceConfig"]["run_monitoring"]["cancel_timeout_seconds"]
    assert "stop_timeout" not in STREAM["attributes"]
    assert stop_timeout + 20 <= grace < limit
    assert f"`terminationGracePeriodSeconds: {grace}`" in PAGE
    assert re.search(rf"`stop_timeout`[^.|]*\b{stop_timeout:.0f}\b", PAGE)
    assert f"`cancel_timeout_seconds: {limit}`" in PAGE


def test_the_definitions_have_the_documented_time_to_load() -> None:
    probe = LOCATION["startupProbe"]
    assert probe["enabled"]
    assert LOCATION["readinessProbe"]["enabled"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 5 * 60
    assert re.search(r"`startupProbe`.*\bfive minutes\b", PAGE)


def test_the_service_accounts_are_those_of_the_settings_and_of_the_page() -> None:
    driver = VALUES["dagster-user-deployments"]["serviceAccount"]["name"]
    executor = MANIFESTS["ServiceAccount"]["metadata"]["name"]
    assert MANIFESTS["RoleBinding"]["subjects"] == [{"kind": "ServiceAccount", "name": driver}]
    assert MANIFESTS["RoleBinding"]["roleRef"]["name"] == MANIFESTS["Role"]["metadata"]["name"]
    assert SPARK["spark.kubernetes.authenticate.executor.serviceAccountName"] == executor
    assert not MANIFESTS["ServiceAccount"]["automountServiceAccountToken"]
    assert re.findall(r"^\| `([\w-]+)` \|.*(?:runs|executors) \|", PAGE, re.MULTILINE) == [driver, executor]


def test_the_pods_have_the_variables_that_spark_replaces() -> None:
    used = set(re.findall(r"\$\{env:(\w+)}", json.dumps(SPARK)))
    assert used == {"POD_IP", "POD_NAME"}
    assert used <= {variable["name"] for variable in LOCATION["env"]}


def test_the_images_are_those_that_the_commands_build() -> None:
    built = {command[command.index("-f") + 1]: command for command in COMMANDS if command[0] == "docker"}
    assert set(built) == set(DOCKERFILES)
    images = {file: command[command.index("-t") + 1] for file, command in built.items()}
    assert SPARK["spark.kubernetes.container.image"] == images["executor.Dockerfile"]
    user_code = images["user-code.Dockerfile"]
    assert "{repository}:{tag}".format(**LOCATION["image"]) == user_code
    assert f"USER_CODE_IMAGE={user_code}" in built["executor.Dockerfile"]


def test_the_commands_use_the_files_the_secret_and_the_namespace_of_the_settings() -> None:
    kubectl = [command for command in COMMANDS if command[0] in {"kubectl", "helm"}]
    for command in kubectl:
        namespace = command[-1] if "namespace" in command else command[command.index("--namespace") + 1]
        assert namespace == SPARK["spark.kubernetes.namespace"]
        for option, value in pairwise(command):
            assert option != "-f" or (FILES / value).is_file()
    (secret,) = (command for command in kubectl if "secret" in command)
    assert VALUES["global"]["postgresqlSecretName"] in secret


def test_the_versions_are_those_of_the_package() -> None:
    bases = {
        version
        for text in DOCKERFILES.values()
        for version in re.findall(r"^ARG PYTHON_IMAGE=python:([\d.]+)-", text, re.MULTILINE)
    }
    (python,) = bases
    assert f"Programming Language :: Python :: {python}" in (PROJECT / "pyproject.toml").read_text()
    assert f"Python {python}." in PAGE
    assert "--constraint /opt/packages/constraints.txt" in DOCKERFILES["user-code.Dockerfile"]
    (helm,) = (command for command in COMMANDS if command[:2] == ["helm", "upgrade"])
    assert helm[helm.index("--version") + 1] == constrained("dagster")


def test_the_interpreter_of_the_executors_is_in_their_image() -> None:
    folder = STREAM["attributes"]["python_executable"].removesuffix("/bin/python")
    assert f"COPY --from=user-code /tmp/environment {folder}\n" in DOCKERFILES["executor.Dockerfile"]


@dagsters_own_warnings
def test_the_component_accepts_the_settings_and_uses_the_interpreter_of_the_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    component, _ = loaded(**STREAM["attributes"])
    assert isinstance(component, SparkSettings)
    config = component.session_config
    assert SPARK.items() <= config.items()
    assert config[PYTHON] == STREAM["attributes"]["python_executable"]
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    prepare(config)
    assert os.environ["PYSPARK_PYTHON"] == STREAM["attributes"]["python_executable"]
    assert "SPARK_LOCAL_IP" not in os.environ


@pytest.mark.thorough
def test_an_executor_starts_by_its_entry_point_and_spark_replaces_the_variables(tmp_path: Path) -> None:
    with Driver(tmp_path / "driver", Path(sys.executable)) as driver:
        assert driver.address["url"].startswith(f"spark://CoarseGrainedScheduler@{LOOPBACK}:")
        assert driver.address["pod_name"] == "run"
        variables = clean_environment() | executor_variables(driver.address) | {"SPARK_HOME": str(SPARK_HOME)}
        command = ["sh", FILES / "executor.sh", "executor"]
        with subprocess.Popen(command, env=variables, cwd=tmp_path) as executor:
            try:
                files = driver.result(executor)
            finally:
                executor.kill()
    assert imported_from(files, Path(sys.prefix))
