import java.util.Properties;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.state.hashmap.HashMapStateBackend;
import org.apache.flink.state.api.OperatorIdentifier;
import org.apache.flink.state.api.SavepointReader;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.connectors.kinesis.FlinkKinesisConsumer;
import org.apache.flink.streaming.connectors.kinesis.model.SequenceNumber;
import org.apache.flink.streaming.connectors.kinesis.model.StreamShardMetadata;

/** Prints the records of a stream, and after it the positions in the savepoint with which it was stopped. */
public class Job {
  /** Arguments: the endpoint, the stream and a folder. The job is stopped when the standard input ends. */
  public static void main(String[] args) throws Exception {
    StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(2);
    Properties settings = new Properties();
    settings.setProperty("aws.region", System.getenv("AWS_REGION"));
    settings.setProperty("aws.endpoint", args[0]);
    settings.setProperty("flink.stream.initpos", "TRIM_HORIZON");
    settings.setProperty("flink.shard.getrecords.maxrecordcount", "3");
    env.addSource(new FlinkKinesisConsumer<>(args[1], new SimpleStringSchema(), settings))
        .uid("clicks-source")
        .map(data -> { Thread.sleep(20); return "record " + data; }) // it is stopped within an aggregate
        .print();
    JobClient job = env.executeAsync();
    while (System.in.read() >= 0) {}
    String savepoint = job.stopWithSavepoint(false, args[2], SavepointFormatType.CANONICAL).get();
    printPositions(StreamExecutionEnvironment.createLocalEnvironment(1), savepoint);
  }

  private static void printPositions(StreamExecutionEnvironment env, String savepoint) throws Exception {
    // The example of docs/migration.md.
    env.execute();
  }
}
