package org.rocketstore.bench;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;

import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.ConsumeQueue;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.DispatchRequest;
import org.apache.rocketmq.store.config.FlushDiskType;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * RocketMQ's own DefaultMessageStore and ConsumeQueue as the peers of writing: rounds as in {@link StoreBench}, each
 * with a store that is new, in a directory that is not there yet, with the configuration that a broker has by default.
 * Argument: MESSAGES, which are made beforehand.
 *
 * <p>Message i is of {@value #TOPIC}, queue i % {@value #QUEUES}, born at {@value #START} + i / 40, with the tag TagA,
 * the key i of {@link IndexFileBench} with seed {@value #KEY_SEED}, and a body of {@value #BODY_WORDS} longs, word w
 * being {@code splitmix64(BODY_WORDS i + w)}.
 *
 * <p>Rounds:
 * <ul>
 * <li>{@code put ROOT N}: putMessage of messages 0 to N - 1, until all are dispatched. The count is the sum of the
 * queues' getMaxOffsetInQueue, the checksum adds up getMaxPhyOffset, and q + 1 times that of queue q.
 * <li>{@code build ROOT N}: the same, but each message is made anew of key and body when it is put, born then.
 * <li>{@code sync ROOT N THREADS}: as {@code put}, from threads that each take every THREADS-th message, with
 * SYNC_FLUSH.
 * <li>{@code units ROOT N}: putMessagePositionInfoWrapper of N units, unit i with phyOffset 1200 i, size 1200, tagsCode
 * 31337 (i % 5), to a queue. Requests are made in chunks before the clock starts. The checksum is the queue's
 * maxPhysicOffset.
 * </ul>
 */
public final class PutBench {
    private static final String TOPIC = "TopicTest";
    private static final String TAG = "TagA";
    private static final int QUEUES = 4;
    private static final long START = 1_700_000_000_000L;
    private static final long KEY_SEED = 1;
    private static final int BODY_WORDS = 128;
    private static final int CHUNK = 100_000;
    private static final long LOOK_NANOS = 50_000;
    private static final InetSocketAddress BORN_HOST = host(0);
    private static final InetSocketAddress STORE_HOST = host(10911);

    private final MessageExtBrokerInner[] messages;

    private PutBench(int count) {
        messages = new MessageExtBrokerInner[count];
        for (int i = 0; i < count; i++) {
            messages[i] = message(i, key(i), body(i), START + i / 40);
        }
    }

    public static void main(String[] args) throws Exception {
        StoreBench.serve(new PutBench(Integer.parseInt(args[0]))::round);
    }

    private String round(String[] round) throws Exception {
        int count = Integer.parseInt(round[2]);
        switch (round[0]) {
            case "put":
                return inStore(round[1], FlushDiskType.ASYNC_FLUSH, store -> put(store, 0, 1, count));
            case "build":
                return build(round[1], count);
            case "sync":
                int threads = Integer.parseInt(round[3]);
                return inStore(round[1], FlushDiskType.SYNC_FLUSH, store -> putFrom(threads, store, count));
            case "units":
                return putUnits(round[1], count);
            default:
                throw new IllegalArgumentException("no round " + round[0]);
        }
    }

    private interface Work {
        void run(DefaultMessageStore store) throws Exception;
    }

    private void put(DefaultMessageStore store, int first, int step, int end) {
        for (int i = first; i < end; i += step) {
            put(store, messages[i]);
        }
    }

    private static void put(DefaultMessageStore store, MessageExtBrokerInner message) {
        if (!store.putMessage(message).isOk()) {
            throw new IllegalStateException("a message was refused");
        }
    }

    private void putFrom(int threads, DefaultMessageStore store, int end) throws InterruptedException {
        CountDownLatch running = new CountDownLatch(threads);
        for (int i = 0; i < threads; i++) {
            int first = i;
            new Thread(() -> {
                try {
                    put(store, first, threads, end);
                } finally {
                    running.countDown(); // what is missing then shows in the answer
                }
            }).start();
        }
        running.await();
    }

    private String build(String root, int count) throws Exception {
        String[] keys = new String[count];
        byte[][] bodies = new byte[count][];
        for (int i = 0; i < count; i++) {
            keys[i] = key(i);
            bodies[i] = messages[i].getBody();
        }
        return inStore(root, FlushDiskType.ASYNC_FLUSH, store -> {
            for (int i = 0; i < count; i++) {
                put(store, message(i, keys[i], bodies[i], System.currentTimeMillis()));
            }
        });
    }

    private static String inStore(String root, FlushDiskType type, Work work) throws Exception {
        DefaultMessageStore store = load(root, type);
        store.start();
        long begin = System.nanoTime();
        work.run(store);
        while (store.dispatchBehindBytes() > 0) {
            LockSupport.parkNanos(LOOK_NANOS);
        }
        long nanos = System.nanoTime() - begin;
        long count = 0;
        long sum = store.getMaxPhyOffset();
        for (int queue = 0; queue < QUEUES; queue++) {
            long offset = store.getMaxOffsetInQueue(TOPIC, queue);
            count += offset;
            sum += offset * (queue + 1);
        }
        store.shutdown();
        return StoreBench.answer(nanos, count, sum);
    }

    private static String putUnits(String root, int count) throws Exception {
        DefaultMessageStore store = load(root, FlushDiskType.ASYNC_FLUSH);
        ConsumeQueue queue = new ConsumeQueue(TOPIC, 0, root + "/consumequeue",
            store.getMessageStoreConfig().getMappedFileSizeConsumeQueue(), store);
        long nanos = 0;
        DispatchRequest[] requests = new DispatchRequest[Math.min(CHUNK, count)];
        for (int from = 0; from < count; from += requests.length) {
            int n = Math.min(requests.length, count - from);
            for (int i = 0; i < n; i++) {
                long at = from + i;
                requests[i] = new DispatchRequest(TOPIC, 0, at * 1200, 1200, at % 5 * 31_337, START, at, "", null, 0,
                    0, null);
            }
            long begin = System.nanoTime();
            for (int i = 0; i < n; i++) {
                queue.putMessagePositionInfoWrapper(requests[i]);
            }
            nanos += System.nanoTime() - begin;
        }
        String answer = StoreBench.answer(nanos, queue.getMaxOffsetInQueue(), queue.getMaxPhysicOffset());
        queue.flush(0);
        queue.shutdown();
        store.getAllocateMappedFileService().shutdown();
        return answer;
    }

    private static MessageExtBrokerInner message(int i, String key, byte[] body, long bornTimestamp) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(TOPIC);
        message.setQueueId(i % QUEUES);
        message.setKeys(key);
        message.setTags(TAG);
        message.setBody(body);
        message.setBornTimestamp(bornTimestamp);
        message.setBornHost(BORN_HOST);
        message.setStoreHost(STORE_HOST);
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        return message;
    }

    private static String key(long i) {
        StringBuilder key = new StringBuilder(32);
        for (int part = 0; part < 4; part++) {
            key.append(String.format("%08x", (int) StoreBench.splitmix64(KEY_SEED + 4 * i + part)));
        }
        return key.toString();
    }

    private static byte[] body(long i) {
        ByteBuffer body = ByteBuffer.allocate(8 * BODY_WORDS);
        for (int word = 0; word < BODY_WORDS; word++) {
            body.putLong(StoreBench.splitmix64(BODY_WORDS * i + word));
        }
        return body.array();
    }

    private static InetSocketAddress host(int port) {
        return new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
    }

    private static DefaultMessageStore load(String root, FlushDiskType type) throws IOException {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(root);
        config.setStorePathCommitLog(Path.of(root, "commitlog").toString());
        config.setFlushDiskType(type);
        config.setHaListenPort(0);
        config.setDiskMaxUsedSpaceRatio(99);
        DefaultMessageStore store = new DefaultMessageStore(config, new BrokerStatsManager("bench", false),
            (topic, queueId, offset, tagsCode, time, bits, properties) -> { }, new BrokerConfig(),
            new ConcurrentHashMap<>());
        if (!store.load()) {
            throw new IllegalStateException("cannot load " + root);
        }
        return store;
    }
}
