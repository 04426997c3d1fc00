"""Metrics for monitoring outside of Dagster, by the API of OpenTelemetry."""
