"""What a session on Spark Connect is given, which is checked before the server is called."""

from __future__ import annotations

import pytest

from kinesis_assets.errors import InvalidInput
from kinesis_assets.spark.connect import ConnectServer, attach
from kinesis_assets.spark.local_settings import ARCHIVES, PY_FILES

NO_SERVER = ConnectServer("sc://127.0.0.1:9")


@pytest.mark.parametrize("name", [ARCHIVES, PY_FILES])
def test_a_file_that_is_not_on_this_machine_is_refused(name):
    with pytest.raises(InvalidInput, match=rf"s3://lake/files.zip.*{name}"):
        attach(NO_SERVER, {name: "s3://lake/files.zip"})


def test_a_wheel_is_refused_because_executors_would_not_import_it(tmp_path):
    wheels = [tmp_path / f"{name}.whl" for name in ("orders", "clicks")]
    for wheel in wheels:
        wheel.touch()
    with pytest.raises(InvalidInput, match=rf"{wheels[0]}.*{PY_FILES}.*\.zip, \.egg, \.py"):
        attach(NO_SERVER, {PY_FILES: ",".join(map(str, wheels))})


def test_a_token_in_the_url_is_not_in_the_representation():
    server = ConnectServer("sc://spark.example.com:15002/;use_ssl=true;token=secret")
    assert repr(server) == "ConnectServer('sc://spark.example.com:15002')"
