"""Python imports this by itself in every process with this folder on its PYTHONPATH: Spark's workers too."""

import fault_points

fault_points.install()
