"""Assets, component, I/O manager, sensor, jobs and events: everything that imports Dagster."""
