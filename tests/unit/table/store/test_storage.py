"""Which errors of a store are permanent refusals of a write."""

from __future__ import annotations

import pytest

from kinesis_assets.table.store.storage import refusal

S3 = "<?xml version='1.0'?><Error><Code>{}</Code><Message>said</Message></Error>"


@pytest.mark.parametrize(
    "error",
    [
        OSError(30, "Read-only file system"),
        OSError(1, "Operation not permitted"),
        NotADirectoryError(20, "Not a directory"),
        OSError("Unable to open file /lake/_delta_log/3.json#1 ↳ Read-only file system (os error 30)"),
        OSError('Error: Os { code: 13, kind: PermissionDenied, message: "Permission denied" }'),
        OSError("AWS Error ACCESS_DENIED during CreateMultipartUpload operation: Access Denied"),
        OSError("AWS Error NO_SUCH_BUCKET during CreateMultipartUpload operation"),
        OSError(f"403 Forbidden ↳ {S3.format('AccessDenied')}"),
        OSError(f"404 Not Found ↳ {S3.format('NoSuchBucket')}"),
    ],
    ids=str,
)
def test_permission_and_missing_bucket_errors_are_permanent(error):
    assert refusal(error)


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        OSError(5, "Input/output error"),
        FileExistsError(17, "File exists"),
        OSError("connection reset"),
        OSError("AWS Error SLOW_DOWN during PutObject operation"),
        OSError(f"403 Forbidden ↳ {S3.format('ExpiredToken')}"),
        OSError(f"503 ↳ {S3.format('SlowDown')}"),
        OSError("file exists (os error 17)"),
    ],
    ids=str,
)
def test_other_errors_may_be_retried(error):
    assert refusal(error) is None
