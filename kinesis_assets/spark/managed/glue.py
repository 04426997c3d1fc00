"""Interactive sessions of AWS Glue with Spark Connect, from Glue 5.1 on.

Source: https://docs.aws.amazon.com/glue/latest/dg/interactive-sessions-spark-connect-connecting.html
"""

from __future__ import annotations

from typing import Any

from kinesis_assets.spark.managed.service import Endpoint, Service, Status

_READY = frozenset({"READY"})
_STARTING = frozenset({"PROVISIONING"})


class Glue(Service):
    """AWS Glue in an account."""

    title = "AWS Glue"

    def start(self, name: str) -> str:
        """Start a session, see `Service`. Its name is its id."""
        self._client.create_session(
            Id=name,
            Role=self._settings["execution_role_arn"],
            Command={"Name": "glueetl", "PythonVersion": "3"},
            SessionType="SPARK_CONNECT",
            GlueVersion=self._settings["glue_version"],
            WorkerType=self._settings["worker_type"],
            NumberOfWorkers=self._settings["workers"],
            IdleTimeout=self._settings["idle_timeout_minutes"],
            Tags=self._settings["tags"],
            DefaultArguments=self._arguments(),
        )
        return name

    def _arguments(self) -> dict[str, Any]:
        # Glue takes all settings in one argument, and repeats the option's name between them.
        config = " --conf ".join(f"{name}={value}" for name, value in self._spark_config.items())
        return {"--language": "python", **({"--conf": config} if config else {})}

    def status(self, session_id: str) -> Status:
        """Return the status of a session."""
        session = self._client.get_session(Id=session_id)["Session"]
        return Status.of(session["Status"], session.get("ErrorMessage"), _READY, _STARTING)

    def endpoint(self, session_id: str) -> Endpoint:
        """Return the endpoint of a session, see `Service`."""
        found = self._client.get_session_endpoint(SessionId=session_id)["SparkConnect"]
        return Endpoint(found["Url"], found["AuthToken"], found["AuthTokenExpirationTime"])

    def stop(self, session_id: str) -> None:
        """Stop a session."""
        self._client.stop_session(Id=session_id)
