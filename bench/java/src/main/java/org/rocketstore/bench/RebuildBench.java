package org.rocketstore.bench;

import java.nio.file.Path;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * RocketMQ's DefaultMessageStore as the peer of rebuilding: rounds as in {@link StoreBench}. Argument: QUEUES, of the
 * topic {@value #TOPIC}.
 *
 * <p>Rounds:
 * <ul>
 * <li>{@code load ROOT}: load() of a store that has a commit log and {@code abort}, and neither queues nor an index,
 * with the configuration that a broker has by default, but for commitLogRecoverMaxNum, so that all files are read. The
 * count is the sum of the queues' getMaxOffsetInQueue, the checksum is getMaxPhyOffset.
 * </ul>
 */
public final class RebuildBench {
    private static final String TOPIC = "TopicTest";
    private static final int ALL_FILES = 100_000;

    private final int queues;

    private RebuildBench(int queues) {
        this.queues = queues;
    }

    public static void main(String[] args) throws Exception {
        StoreBench.serve(new RebuildBench(Integer.parseInt(args[0]))::round);
    }

    private String round(String[] round) throws Exception {
        if (!round[0].equals("load")) {
            throw new IllegalArgumentException("no round " + round[0]);
        }
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(round[1]);
        config.setStorePathCommitLog(Path.of(round[1], "commitlog").toString());
        config.setCommitLogRecoverMaxNum(ALL_FILES);
        config.setDiskMaxUsedSpaceRatio(99);
        DefaultMessageStore store = new DefaultMessageStore(config, new BrokerStatsManager("bench", false),
            (topic, queueId, offset, tagsCode, time, bits, properties) -> { }, new BrokerConfig(),
            new ConcurrentHashMap<>());
        long begin = System.nanoTime();
        if (!store.load()) {
            throw new IllegalStateException("cannot load " + round[1]);
        }
        long nanos = System.nanoTime() - begin;
        long count = 0;
        for (int queue = 0; queue < queues; queue++) {
            count += store.getMaxOffsetInQueue(TOPIC, queue);
        }
        String answer = StoreBench.answer(nanos, count, store.getMaxPhyOffset());
        store.getIndexService().shutdown();
        store.getAllocateMappedFileService().shutdown();
        store.getMessageRocksDBStorage().shutdown();
        return answer;
    }
}
