# The code location of a Dagster project, and its runs: Spark's driver, with Java. Build it in the project's folder.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm
FROM ${PYTHON_IMAGE}

# Spark's scripts call ps.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends default-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*

# kinesis_assets, and what the Helm chart's instance needs: the run launcher and PostgreSQL.
COPY constraints.txt dist/kinesis_assets-*.whl /opt/packages/
RUN pip install --no-cache-dir --constraint /opt/packages/constraints.txt \
    /opt/packages/*.whl dagster-k8s dagster-postgres "sqlalchemy<2.1"

# Dagster finds the folder defs by the project's pyproject.toml, so the project is installed where it is.
COPY . /opt/project
RUN pip install --no-cache-dir --constraint /opt/packages/constraints.txt --editable /opt/project

# A user with a home folder: the code that runs send to executors is cached there.
RUN useradd --uid 10001 --create-home dagster
USER dagster
WORKDIR /opt/project
