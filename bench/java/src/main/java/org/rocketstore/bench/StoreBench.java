package org.rocketstore.bench;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.store.CommitLog;
import org.apache.rocketmq.store.ConsumeQueue;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.DispatchRequest;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.queue.CqUnit;
import org.apache.rocketmq.store.queue.ReferredIterator;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * RocketMQ's own stores as the peer of bench/: a process that stays and runs a named round for each line of stdin, as
 * {@link IndexFileBench} does. It reads what bench/store_files.py wrote. Arguments: SLOTS ITEMS, of the index files;
 * the other files have RocketMQ's default sizes.
 *
 * <p>Rounds; each answers one line of {@code seconds count checksum}, or {@code error ...}:
 * <ul>
 * <li>{@code scan ROOT CRC BODY}: checkMessageAndReturnSize on every record, with checkCRC and readBody as given. The
 * checksum is the sum of commitLogOffset, consumeQueueOffset, storeTimestamp, tagsCode and msgSize.
 * <li>{@code texts ROOT}: the same, untimed; the checksum is the sum of the lengths of topic, keys and uniqKey.
 * <li>{@code queue ROOT TOPIC QUEUE_ID}: ConsumeQueue.iterateFrom over every unit of a queue, from the first file on.
 * The checksum is the sum of offset, size and tagsCode.
 * <li>{@code query ROOT N SEED MESSAGES BEGIN END}: N times queryMessage with maxNum 32; lookup j is for the key
 * {@code order-} with the 16 hexadecimal digits of {@code splitmix64(i)}, i being {@code splitmix64(SEED + j)} modulo
 * (unsigned) MESSAGES. The count is the number of messages found, colliding ones too, the checksum the sum of their
 * physical offsets.
 * <li>{@code quit}
 * </ul>
 * A store stays open until a round names another one. Checksums are modulo 2^63. Keys of lookups are made before the
 * clock starts. Buffers are released inside the timed part, as a broker has to.
 */
public final class StoreBench {
    private static final String TOPIC = "TopicTest";
    private static final int CHUNK = 20_000;

    private final int slots;
    private final int items;
    private DefaultMessageStore store;
    private String root;
    private ConsumeQueue queue;
    private String queueName;

    private StoreBench(int slots, int items) {
        this.slots = slots;
        this.items = items;
    }

    public static void main(String[] args) throws Exception {
        serve(new StoreBench(Integer.parseInt(args[0]), Integer.parseInt(args[1]))::round);
    }

    interface Rounds {
        String run(String[] words) throws Exception;
    }

    /** Answers each line of stdin until one is {@code quit}. */
    static void serve(Rounds bench) throws IOException {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever a library prints must not pass for an answer
        BufferedReader rounds = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = rounds.readLine(); line != null && !line.equals("quit"); line = rounds.readLine()) {
            String answer;
            try {
                answer = bench.run(line.split(" "));
            } catch (Exception e) {
                answer = "error " + e.toString().replaceAll("\\s+", " ");
            }
            answers.println(answer);
        }
        System.exit(0); // stores leave threads behind
    }

    private String round(String[] round) throws Exception {
        switch (round[0]) {
            case "scan":
                open(round[1]);
                return scan(Boolean.parseBoolean(round[2]), Boolean.parseBoolean(round[3]));
            case "texts":
                open(round[1]);
                return texts();
            case "queue":
                openQueue(round[1], round[2], Integer.parseInt(round[3]));
                return iterate();
            case "query":
                open(round[1]);
                return query(Integer.parseInt(round[2]), Long.parseLong(round[3]), Long.parseLong(round[4]),
                    Long.parseLong(round[5]), Long.parseLong(round[6]));
            default:
                throw new IllegalArgumentException("no round " + round[0]);
        }
    }

    private static String key(long i) {
        return String.format("order-%016x", splitmix64(i));
    }

    private String scan(boolean checkCrc, boolean readBody) {
        CommitLog log = store.getCommitLog();
        long count = 0;
        long sum = 0;
        long begin = System.nanoTime();
        SelectMappedBufferResult file = log.getData(0, false);
        while (file != null) {
            ByteBuffer buffer = file.getByteBuffer();
            while (buffer.hasRemaining()) {
                DispatchRequest request = log.checkMessageAndReturnSize(buffer, checkCrc, false, readBody);
                if (!request.isSuccess() || request.getMsgSize() == 0) {
                    break;
                }
                count++;
                sum += request.getCommitLogOffset() + request.getConsumeQueueOffset() + request.getStoreTimestamp()
                    + request.getTagsCode() + request.getMsgSize();
            }
            file.release();
            file = log.getData(log.rollNextFile(file.getStartOffset()), false);
        }
        return answer(System.nanoTime() - begin, count, sum);
    }

    private String texts() {
        CommitLog log = store.getCommitLog();
        long count = 0;
        long sum = 0;
        SelectMappedBufferResult file = log.getData(0, false);
        for (ByteBuffer buffer = file.getByteBuffer(); buffer.hasRemaining(); count++) {
            DispatchRequest request = log.checkMessageAndReturnSize(buffer, false, false, false);
            if (!request.isSuccess() || request.getMsgSize() == 0) {
                break;
            }
            sum += request.getTopic().length() + request.getKeys().length() + request.getUniqKey().length();
        }
        file.release();
        return answer(0, count, sum);
    }

    private String iterate() {
        long count = 0;
        long sum = 0;
        long end = queue.getMaxOffsetInQueue();
        long begin = System.nanoTime();
        for (long offset = 0; offset < end; offset = count) {
            ReferredIterator<CqUnit> units = queue.iterateFrom(offset);
            while (units.hasNext()) {
                CqUnit unit = units.next();
                sum += unit.getPos() + unit.getSize() + unit.getTagsCode();
                count++;
            }
            units.release();
        }
        return answer(System.nanoTime() - begin, count, sum);
    }

    private String query(int lookups, long seed, long messages, long from, long to) {
        long found = 0;
        long sum = 0;
        long nanos = 0;
        for (int done = 0; done < lookups; done += CHUNK) {
            String[] keys = new String[Math.min(CHUNK, lookups - done)];
            for (int i = 0; i < keys.length; i++) {
                keys[i] = key(Long.remainderUnsigned(splitmix64(seed + done + i), messages));
            }
            long begin = System.nanoTime();
            for (String key : keys) {
                QueryMessageResult result = store.queryMessage(TOPIC, key, 32, from, to);
                List<ByteBuffer> records = result.getMessageBufferList();
                for (ByteBuffer record : records) {
                    sum += record.getLong(28);
                }
                found += records.size();
                result.release();
            }
            nanos += System.nanoTime() - begin;
        }
        return answer(nanos, found, sum);
    }

    private void open(String wanted) throws Exception {
        if (wanted.equals(root)) {
            return;
        }
        leave();
        store = create(wanted);
        if (!store.load()) {
            throw new IllegalStateException("cannot load " + wanted);
        }
        root = wanted;
    }

    /** A queue without its store: a load would compare it with the commit log. */
    private void openQueue(String wanted, String topic, int queueId) throws Exception {
        String name = wanted + " " + topic + " " + queueId;
        if (name.equals(queueName)) {
            return;
        }
        leave();
        store = create(wanted);
        queue = new ConsumeQueue(topic, queueId, wanted + "/consumequeue",
            store.getMessageStoreConfig().getMappedFileSizeConsumeQueue(), store);
        if (!queue.load()) {
            throw new IllegalStateException("cannot load the queue " + name);
        }
        queue.recover();
        queueName = name;
    }

    /** Ends the threads of a store that was not started. Its mappings stay until this process ends. */
    private void leave() {
        if (store != null) {
            store.getAllocateMappedFileService().shutdown();
        }
        store = null;
        root = null;
        queue = null;
        queueName = null;
    }

    private DefaultMessageStore create(String in) throws IOException {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(in);
        config.setStorePathCommitLog(Path.of(in, "commitlog").toString());
        config.setMaxHashSlotNum(slots);
        config.setMaxIndexNum(items);
        config.setHaListenPort(0);
        config.setEnableCompaction(false);
        config.setDiskMaxUsedSpaceRatio(99);
        return new DefaultMessageStore(config, new BrokerStatsManager("bench", false),
            (topic, queueId, offset, tagsCode, time, bits, properties) -> { }, new BrokerConfig(),
            new ConcurrentHashMap<>());
    }

    static long splitmix64(long x) {
        long z = x + 0x9E3779B97F4A7C15L;
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }

    static String answer(long nanos, long count, long sum) {
        return String.format(Locale.ROOT, "%.6f %d %d", nanos / 1e9, count, sum & Long.MAX_VALUE);
    }
}
