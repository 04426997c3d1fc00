import static java.nio.charset.StandardCharsets.UTF_8;
import static software.amazon.kinesis.common.InitialPositionInStreamExtended.newInitialPosition;

import java.net.URI;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import software.amazon.awssdk.services.cloudwatch.CloudWatchAsyncClient;
import software.amazon.awssdk.services.dynamodb.DynamoDbAsyncClient;
import software.amazon.awssdk.services.dynamodb.model.BillingMode;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClient;
import software.amazon.kinesis.common.ConfigsBuilder;
import software.amazon.kinesis.common.InitialPositionInStream;
import software.amazon.kinesis.coordinator.Scheduler;
import software.amazon.kinesis.exceptions.InvalidStateException;
import software.amazon.kinesis.exceptions.ShutdownException;
import software.amazon.kinesis.lifecycle.events.InitializationInput;
import software.amazon.kinesis.lifecycle.events.LeaseLostInput;
import software.amazon.kinesis.lifecycle.events.ProcessRecordsInput;
import software.amazon.kinesis.lifecycle.events.ShardEndedInput;
import software.amazon.kinesis.lifecycle.events.ShutdownRequestedInput;
import software.amazon.kinesis.metrics.NullMetricsFactory;
import software.amazon.kinesis.processor.RecordProcessorCheckpointer;
import software.amazon.kinesis.processor.ShardRecordProcessor;
import software.amazon.kinesis.processor.SingleStreamTracker;
import software.amazon.kinesis.processor.StreamTracker;
import software.amazon.kinesis.retrieval.KinesisClientRecord;
import software.amazon.kinesis.retrieval.polling.PollingConfig;

/**
 * An application of the Kinesis Client Library that prints what it does, one event a line, until its standard input ends.
 *
 * <p>Arguments: endpoint of Kinesis, endpoint of the other services, stream, application, worker, records a batch, failover time
 * in milliseconds, and which user record of a batch it writes a checkpoint at: the "last" one, or an "earlier" one.
 */
public final class Application {
    public static void main(String[] arguments) throws Exception {
        URI kinesisEndpoint = URI.create(arguments[0]);
        URI endpoint = URI.create(arguments[1]);
        String stream = arguments[2];
        long failover = Long.parseLong(arguments[6]);
        boolean last = arguments[7].equals("last");

        KinesisAsyncClient kinesis = KinesisAsyncClient.builder().endpointOverride(kinesisEndpoint).build();
        DynamoDbAsyncClient dynamodb = DynamoDbAsyncClient.builder().endpointOverride(endpoint).build();
        CloudWatchAsyncClient cloudwatch = CloudWatchAsyncClient.builder().endpointOverride(endpoint).build();
        StreamTracker tracker = new SingleStreamTracker(stream, newInitialPosition(InitialPositionInStream.TRIM_HORIZON));
        ConfigsBuilder configs = new ConfigsBuilder(
                tracker, arguments[3], kinesis, dynamodb, cloudwatch, arguments[4], () -> new Processor(last));

        // Only times, which are minutes by default.
        var leases = configs.leaseManagementConfig()
                .failoverTimeMillis(failover)
                .leaseAssignmentIntervalMillis(1000L)
                .shardSyncIntervalMillis(1000)
                .leasesRecoveryAuditorExecutionFrequencyMillis(2000)
                .dynamoDbLockBasedLeaderLeaseDurationInMillis(failover)
                .dynamoDbLockBasedLeaderHeartbeatPeriodInMillis(failover / 4)
                .billingMode(BillingMode.PAY_PER_REQUEST);
        leases.workerUtilizationAwareAssignmentConfig().workerMetricsReporterFreqInMillis(1000);
        PollingConfig polling = new PollingConfig(stream, kinesis)
                .maxRecords(Integer.parseInt(arguments[5]))
                .idleTimeBetweenReadsInMillis(250);

        Scheduler scheduler = new Scheduler(
                configs.checkpointConfig(),
                configs.coordinatorConfig()
                        .parentShardPollIntervalMillis(1000)
                        .shardConsumerDispatchPollIntervalMillis(200),
                leases,
                configs.lifecycleConfig(),
                configs.metricsConfig().metricsFactory(new NullMetricsFactory()),
                configs.processorConfig(),
                configs.retrievalConfig().retrievalSpecificConfig(polling));
        new Thread(scheduler, "scheduler").start();
        while (System.in.read() >= 0) {
            // whoever started this process is still there
        }
        try {
            scheduler.startGracefulShutdown().get(10, TimeUnit.SECONDS);
            print("stopped");
        } catch (TimeoutException error) {
            // It waits for ever if it has the lease of a shard whose parents are not read to their end.
            print("late");
        }
        System.exit(0);
    }

    static synchronized void print(Object... words) {
        StringBuilder line = new StringBuilder();
        for (Object word : words) {
            line.append(line.length() == 0 ? "" : " ").append(word);
        }
        System.out.println(line);
        System.out.flush();
    }

    private static final class Processor implements ShardRecordProcessor {
        private final Random random = new Random();
        private final boolean last;
        private String shard;

        Processor(boolean last) {
            this.last = last;
        }

        @Override
        public void initialize(InitializationInput input) {
            shard = input.shardId();
            var number = input.extendedSequenceNumber();
            print("begin", shard, number.sequenceNumber(), number.subSequenceNumber());
        }

        @Override
        public void processRecords(ProcessRecordsInput input) {
            List<KinesisClientRecord> records = input.records();
            for (KinesisClientRecord record : records) {
                String data = UTF_8.decode(record.data().duplicate()).toString();
                print("record", shard, record.sequenceNumber(), record.subSequenceNumber(), data);
            }
            if (!records.isEmpty()) {
                int end = records.size() - 1;
                var record = records.get(last || end == 0 ? end : random.nextInt(end));
                checkpoint(input.checkpointer(), record.sequenceNumber(), record.subSequenceNumber());
            }
        }

        @Override
        public void leaseLost(LeaseLostInput input) {
            print("lost", shard);
        }

        @Override
        public void shardEnded(ShardEndedInput input) {
            try {
                input.checkpointer().checkpoint();
            } catch (InvalidStateException | ShutdownException error) {
                throw new IllegalStateException(error);
            }
            print("end", shard);
        }

        @Override
        public void shutdownRequested(ShutdownRequestedInput input) {
            print("asked", shard);
        }

        private void checkpoint(RecordProcessorCheckpointer checkpointer, String number, long sub) {
            try {
                checkpointer.checkpoint(number, sub);
                print("checkpoint", shard, number, sub);
            } catch (InvalidStateException | ShutdownException error) {
                print("none", shard, error.getClass().getSimpleName());
            }
        }
    }
}
