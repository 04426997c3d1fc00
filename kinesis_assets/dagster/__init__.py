"""Assets, component, I/O manager, sensor, jobs and events: everything that imports Dagster."""

import warnings

# `dg` creates the scaffolder of each installed component. One is in preview: that of dagster-spark, which
# dagster-pyspark requires.
warnings.filterwarnings("ignore", "Class `SparkDeclarativePipelineScaffolder` is currently in preview")
