"""A receiver of metrics over OTLP/HTTP on loopback, in place of Prometheus or of the CloudWatch agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality

from support.http_service import HttpService, Reply, Request

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Point:
    """A data point.

    Attributes:
        path: The path of the request.
        resource: The attributes of its process.
        metric: The name of the metric.
        value: Its value; of a histogram, the number of measurements.
        is_delta: Whether it has what was counted since the export before; None for a gauge.
    """

    path: str
    resource: dict[str, Any]
    metric: str
    attributes: dict[str, Any]
    value: float
    is_delta: bool | None


class OtlpReceiver:
    """A receiver, which runs until it is left as a context.

    Attributes:
        points: The points that it received, in order of arrival.
        status: The status of its responses. It keeps the points of refused requests too.
        url: Its URL, without a path.
    """

    def __init__(self) -> None:
        self.points, self.status = list[Point](), 200
        self._service = HttpService.of(self._respond)
        self.url = self._service.url

    def of(self, metric: str) -> list[Point]:
        """Return the points of a metric."""
        return [point for point in list(self.points) if point.metric == metric]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._service.stop()

    def _respond(self, request: Request) -> Reply:
        assert request.headers["Content-Type"] == "application/x-protobuf"
        self.points += _points(request.path, ExportMetricsServiceRequest.FromString(request.body))
        return Reply(self.status)


def _points(path: str, request: ExportMetricsServiceRequest) -> Iterator[Point]:
    for resource in request.resource_metrics:
        of_process = _plain(resource.resource.attributes)
        for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
            kind = str(metric.WhichOneof("data"))
            data = getattr(metric, kind)
            delta = None
            if kind != "gauge":
                delta = data.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
            for point in data.data_points:
                value = point.count if kind == "histogram" else getattr(point, point.WhichOneof("value"))
                yield Point(path, of_process, metric.name, _plain(point.attributes), value, delta)


def _plain(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
