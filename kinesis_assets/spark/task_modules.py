"""The modules that tasks import on the executors."""

TASK_MODULES = (
    "kinesis_assets.ingest.task",
    "kinesis_assets.operations.replay.task",
    "kinesis_assets.derive.writing_task",
    "kinesis_assets.decoders.decode",
    "kinesis_assets.operations.doctor.row_scan",
)
