# The entry point of an executor's container. Spark's driver sets the variables in the pod.
set -eu

# SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ...: one option each.
set --
number=0
while eval "option=\${SPARK_JAVA_OPT_$number-}" && [ -n "$option" ]; do
    set -- "$@" "$option"
    number=$((number + 1))
done

# exec: the JVM is the container's first process and receives SIGTERM.
exec java "$@" -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*${SPARK_CLASSPATH:+:$SPARK_CLASSPATH}" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --app-id "$SPARK_APPLICATION_ID" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --podName "$SPARK_EXECUTOR_POD_NAME" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID"
