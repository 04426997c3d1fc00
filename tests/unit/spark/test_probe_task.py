"""What a probe finds out on an executor."""

from __future__ import annotations

import json
import pickle
from functools import partial

from kinesis_assets.spark.probe_task import examine


def test_a_missing_module_is_named_and_nothing_else_is_tried():
    facts = json.loads(examine(["json", "no_such_module"], b"not a pickle"))
    assert (facts["missing"], facts["error"]) == ("No module named 'no_such_module'", None)


def test_what_the_check_returns_is_reported():
    facts = json.loads(examine(["json"], pickle.dumps(partial(str, "no rights"))))
    assert (facts["missing"], facts["error"]) == (None, "no rights")
