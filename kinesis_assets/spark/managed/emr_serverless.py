"""Sessions on Amazon EMR Serverless, from release 7.13 on.

Source: https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/spark-connect.html
"""

from __future__ import annotations

from kinesis_assets.spark.managed.service import Endpoint, Service, Status

_READY = frozenset({"STARTED", "IDLE", "BUSY"})
_STARTING = frozenset({"SUBMITTED", "STARTING"})


class EmrServerless(Service):
    """An application of EMR Serverless."""

    title = "EMR Serverless"

    def start(self, name: str) -> str:
        """Start a session, see `Service`."""
        session = self._client.start_session(
            applicationId=self._settings["application_id"],
            executionRoleArn=self._settings["execution_role_arn"],
            clientToken=name,
            name=name,
            idleTimeoutMinutes=self._settings["idle_timeout_minutes"],
            tags=self._settings["tags"],
            configurationOverrides={
                "runtimeConfiguration": [
                    {"classification": "spark-defaults", "properties": self._spark_config}
                ]
            },
        )
        return str(session["sessionId"])

    def status(self, session_id: str) -> Status:
        """Return the status of a session."""
        session = self._client.get_session(
            applicationId=self._settings["application_id"], sessionId=session_id
        )["session"]
        return Status.of(session["state"], session.get("stateDetails"), _READY, _STARTING)

    def endpoint(self, session_id: str) -> Endpoint:
        """Return the endpoint of a session, see `Service`."""
        found = self._client.get_session_endpoint(
            applicationId=self._settings["application_id"], sessionId=session_id
        )
        return Endpoint(found["endpoint"], found["authToken"], found["authTokenExpiresAt"])

    def stop(self, session_id: str) -> None:
        """Stop a session."""
        self._client.terminate_session(applicationId=self._settings["application_id"], sessionId=session_id)
