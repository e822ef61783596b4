package org.rocketstore.interop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.ExecutorService;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageArrivingListener;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * DefaultMessageStores without a broker. Their options are a JSON object of {@code config}, properties of
 * MessageStoreConfig by name (what the release does not know is ignored), and {@code batchTopics}, the topics whose
 * queues are of type BatchCQ.
 */
final class Stores {
    private static final MessageArrivingListener NOBODY =
        (topic, queueId, offset, tagsCode, time, bits, properties) -> { };
    private static Object stats;

    private Stores() {
    }

    static DefaultMessageStore create(Path root, Map<String, Object> options) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        Properties properties = new Properties();
        ((Map<?, ?>) options.get("config")).forEach((k, v) -> properties.setProperty((String) k, String.valueOf(v)));
        MixAll.properties2Object(properties, config);
        config.setStorePathRootDir(root.toString());
        config.setStorePathCommitLog(root.resolve("commitlog").toString());
        config.setHaListenPort(0);
        if (stats == null) { // one for all: nothing but the end of the JVM ends its five threads
            stats = Reflect.construct(BrokerStatsManager.class, "interop", false);
        }
        boolean inRocksDb = "defaultRocksDB".equals(properties.getProperty("storeType"));
        Class<?> type = inRocksDb ? Class.forName("org.apache.rocketmq.store.RocksDBMessageStore")
            : DefaultMessageStore.class;
        return (DefaultMessageStore) Reflect.construct(type, config, stats, NOBODY, new BrokerConfig(),
            topics((List<?>) options.get("batchTopics")));
    }

    /** Waits until a store with a log of DLedger's leads its group: before, it refuses messages. */
    static void waitUntilItLeads(DefaultMessageStore store) throws Exception {
        Object server = Reflect.callIfAny(store.getCommitLog(), "getdLedgerServer");
        if (server == null) {
            return;
        }
        Object member = Reflect.call(server, "getMemberState");
        for (int i = 0; !(Boolean) Reflect.call(member, "isLeader"); i++) {
            if (i == 30_000) {
                throw new IllegalStateException("no leader is elected in 30 s");
            }
            Thread.sleep(1);
        }
    }

    @SuppressWarnings("unchecked")
    private static ConcurrentMap<String, TopicConfig> topics(List<?> batchTopics) throws Exception {
        ConcurrentMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        for (Object topic : batchTopics) {
            TopicConfig config = new TopicConfig((String) topic);
            Map<String, String> attributes = (Map<String, String>) Reflect.callIfAny(config, "getAttributes");
            if (attributes != null) { // before 5.0 there are no other queues
                attributes.put("queue.type", "BatchCQ");
            }
            topics.put((String) topic, config);
        }
        return topics;
    }

    /** Waits until all that was appended is in the queues and the index, and for the next millisecond. */
    static void settle(DefaultMessageStore store) throws InterruptedException {
        for (int i = 0; store.dispatchBehindBytes() > 0; i++) {
            if (i == 20_000) {
                throw new IllegalStateException(store.dispatchBehindBytes() + " bytes are not dispatched in 20 s");
            }
            Thread.sleep(1);
        }
        // An index file is named after the millisecond it is made in: two in one would be one file.
        Thread.sleep(2);
        IndexServices.joinFlush();
    }

    /** Stops what the constructor of a store that was never started began; its files stay. */
    static void release(DefaultMessageStore store) throws Exception {
        IndexServices.joinFlush();
        for (String service : List.of("allocateMappedFileService", "indexService", "messageRocksDBStorage")) {
            Object running = Reflect.get(store, service);
            if (running != null) {
                Reflect.call(running, "shutdown");
            }
        }
        stopScheduler(store);
    }

    /** Shuts down a store that was started. */
    static void shutdown(DefaultMessageStore store) throws Exception {
        store.shutdown();
        stopScheduler(store);
    }

    /** Ends a thread that no shutdown ends, and that keeps all of a store in memory. Since 5.4. */
    private static void stopScheduler(DefaultMessageStore store) throws Exception {
        Object storage = Reflect.get(store, "messageRocksDBStorage");
        Object scheduler = storage == null ? null : Reflect.get(storage, "scheduler");
        if (scheduler != null) {
            ((ExecutorService) scheduler).shutdownNow();
        }
    }

    /** Releases a store that was never started, and deletes its files. */
    static void discard(DefaultMessageStore store, Path root) throws Exception {
        release(store);
        store.destroy();
        delete(root);
    }

    /** Shuts a store down and deletes it. */
    static void end(DefaultMessageStore store, Path root) {
        try {
            shutdown(store);
            delete(root);
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    static void copy(Path from, Path to) throws IOException {
        for (Path path : tree(from)) {
            Files.copy(path, to.resolve(from.relativize(path)));
        }
    }

    static void delete(Path root) throws IOException {
        List<Path> paths = tree(root);
        paths.sort(Comparator.reverseOrder());
        for (Path path : paths) {
            Files.delete(path);
        }
    }

    private static List<Path> tree(Path root) throws IOException {
        try (Stream<Path> paths = Files.walk(root)) {
            return paths.collect(Collectors.toList());
        }
    }
}
