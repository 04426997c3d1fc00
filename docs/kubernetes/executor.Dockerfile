# An executor of Spark, with the Python, the Spark and the packages of the user code's image, and without Dagster.
ARG PYTHON_IMAGE=python:3.11-slim-bookworm
ARG USER_CODE_IMAGE
FROM ${USER_CODE_IMAGE} AS user-code
RUN kinesis-assets spark environment /tmp/environment.tar.gz \
    && mkdir /tmp/environment \
    && tar -xzf /tmp/environment.tar.gz -C /tmp/environment \
    && cp -r "$(python -c 'import pyspark; print(pyspark.__path__[0])')" /tmp/spark

FROM ${PYTHON_IMAGE}
RUN apt-get update \
    && apt-get install --yes --no-install-recommends default-jre-headless procps \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home spark
COPY --from=user-code /tmp/environment /opt/environment
COPY --from=user-code /tmp/spark /opt/spark
COPY executor.sh /opt/executor.sh
ENV SPARK_HOME=/opt/spark
USER spark
WORKDIR /tmp
ENTRYPOINT ["/bin/sh", "/opt/executor.sh"]
