"""Sessions on Amazon EMR clusters on EC2, from release emr-spark-8.0.0 on.

Source: https://docs.aws.amazon.com/emr/latest/APIReference/API_StartSession.html
"""

from __future__ import annotations

from kinesis_assets.spark.managed.service import Endpoint, Service, Status

_READY = frozenset({"STARTED", "IDLE", "BUSY"})
_STARTING = frozenset({"SUBMITTED", "STARTING"})


class Emr(Service):
    """An EMR cluster."""

    title = "EMR"

    def start(self, name: str) -> str:
        """Start a session, see `Service`."""
        role = self._settings["execution_role_arn"]
        session = self._client.start_session(
            ClusterId=self._settings["cluster_id"],
            **({} if role is None else {"ExecutionRoleArn": role}),
            ClientRequestToken=name,
            Name=name,
            SessionIdleTimeoutInMinutes=self._settings["idle_timeout_minutes"],
            Tags=[{"Key": key, "Value": value} for key, value in self._settings["tags"].items()],
            EngineConfigurations=[{"Classification": "spark-defaults", "Properties": self._spark_config}],
        )
        return str(session["Id"])

    def status(self, session_id: str) -> Status:
        """Return the status of a session."""
        session = self._client.get_session(ClusterId=self._settings["cluster_id"], SessionId=session_id)[
            "Session"
        ]
        return Status.of(session["State"], session.get("StateChangeReason"), _READY, _STARTING)

    def endpoint(self, session_id: str) -> Endpoint:
        """Return the endpoint of a session, see `Service`."""
        found = self._client.get_session_endpoint(
            ClusterId=self._settings["cluster_id"], SessionId=session_id
        )
        return Endpoint(found["Endpoint"], found["AuthToken"], found["AuthTokenExpirationTime"])

    def stop(self, session_id: str) -> None:
        """Stop a session."""
        self._client.terminate_session(ClusterId=self._settings["cluster_id"], SessionId=session_id)
