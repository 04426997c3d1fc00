"""Python imports this in every process with this folder on its PYTHONPATH, Spark's workers included."""

import fault_points

fault_points.install()
