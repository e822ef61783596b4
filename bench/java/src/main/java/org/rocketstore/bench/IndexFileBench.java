package org.rocketstore.bench;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import java.util.function.LongUnaryOperator;

import org.apache.rocketmq.store.index.IndexFile;

/**
 * RocketMQ's own IndexFile as the peer of bench/: a process that stays, warms up as its caller likes, and runs a named
 * round for each line of stdin. Build with {@code mvn process-classes}; run with
 *
 * <pre>
 * java -Xmx2g --add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/jdk.internal.ref=ALL-UNNAMED
 *      -cp target/classes:$(cat target/classpath.txt) org.rocketstore.bench.IndexFileBench SLOTS ITEMS
 * </pre>
 *
 * Rounds, with a space between the words; each answers one line of {@code seconds count checksum}, or {@code error ...}.
 * FILE has a number for its name, as RocketMQ's own have.
 * <ul>
 * <li>{@code keys N SEED}: the keys of the rounds after it are number 0 to N - 1 of SEED. Answers 0 N 0.
 * <li>{@code put FILE N}: a fresh FILE takes the keys 0 to N - 1, key i with phyOffset 1200 i and storeTimestamp
 * 1700000000000 + i / 40. Timed: the constructor and putKey. N is at most ITEMS - 1, what a file holds. The count is
 * how many were put, the checksum the sum of their offsets.
 * <li>{@code select FILE N SEED hit}: N lookups with max 32, begin 0, end Long.MAX_VALUE; lookup j is for key
 * {@code splitmix64(SEED + j)} modulo (unsigned) the number of keys; {@code miss}: that key number plus the number of
 * keys, which nobody put. The count is the number of offsets found, the checksum their sum modulo 2^63.
 * <li>{@code select_one FILE N}: N lookups of one key, number (keys / 2), the same otherwise.
 * <li>{@code quit}
 * </ul>
 * A file stays open until a round names another (or the same name is another file), so that a round after the first
 * finds its pages mapped.
 *
 * <p>The index key of key i is {@code "TopicTest#"} and 32 hexadecimal digits in lower case: 4 parts of 8, part p being
 * the low 32 bits of {@code splitmix64(SEED + 4 i + p)}, where, modulo 2^64,
 * <pre>
 * splitmix64(x):  z = x + 0x9E3779B97F4A7C15
 *                 z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9
 *                 z = (z ^ (z >>> 27)) * 0x94D049BB133111EB
 *                 return z ^ (z >>> 31)
 * </pre>
 *
 * <p>What is timed: keys are made in chunks of {@value #CHUNK} between the timed parts, as new Strings, because a String
 * remembers its hash; hashing is therefore timed, making the String is not. The list that takes the offsets is used
 * again for every lookup, which a broker does not do: a small favour to Java.
 */
public final class IndexFileBench {
    private static final int CHUNK = 100_000;
    private static final long START = 1_700_000_000_000L;
    private static final byte[] DIGITS = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);
    private static final byte[] TOPIC = "TopicTest#".getBytes(StandardCharsets.US_ASCII);

    private final int slots;
    private final int items;
    private long keys;
    private long seed;
    private String path;
    private Object inode;
    private IndexFile file;

    private IndexFileBench(int slots, int items) {
        this.slots = slots;
        this.items = items;
    }

    public static void main(String[] args) throws Exception {
        StoreBench.serve(new IndexFileBench(Integer.parseInt(args[0]), Integer.parseInt(args[1]))::run);
    }

    private String run(String[] round) throws IOException {
        switch (round[0]) {
            case "keys":
                keys = Long.parseLong(round[1]);
                seed = Long.parseLong(round[2]);
                return StoreBench.answer(0, keys, 0);
            case "put":
                return put(round[1], Long.parseLong(round[2]));
            case "select":
                long order = Long.parseLong(round[3]);
                long first = round[4].equals("miss") ? keys : 0;
                return select(round[1], Long.parseLong(round[2]),
                    j -> first + Long.remainderUnsigned(StoreBench.splitmix64(order + j), keys));
            case "select_one":
                return select(round[1], Long.parseLong(round[2]), j -> keys / 2);
            default:
                throw new IllegalArgumentException("no round " + round[0]);
        }
    }

    private String put(String to, long count) throws IOException {
        leave(to);
        Files.deleteIfExists(Path.of(to));
        long sum = 0;
        long begin = System.nanoTime();
        file = new IndexFile(to, slots, items, 0, 0);
        long nanos = System.nanoTime() - begin;
        opened(to);
        for (long from = 0; from < count; from += CHUNK) {
            String[] chunk = chunk(from, count, i -> i);
            begin = System.nanoTime();
            for (int i = 0; i < chunk.length; i++) {
                long at = from + i;
                if (!file.putKey(chunk[i], at * 1200, START + at / 40)) {
                    throw new IllegalStateException("the file is full at key " + at);
                }
                sum += at * 1200;
            }
            nanos += System.nanoTime() - begin;
        }
        return StoreBench.answer(nanos, count, sum);
    }

    private String select(String from, long count, LongUnaryOperator keyOf) throws IOException {
        if (!from.equals(path) || !inode(from).equals(inode)) {
            leave(null);
            file = new IndexFile(from, slots, items, 0, 0);
            file.load();
            opened(from);
        }
        List<Long> offsets = new ArrayList<>(32);
        long found = 0;
        long sum = 0;
        long nanos = 0;
        for (long lookup = 0; lookup < count; lookup += CHUNK) {
            String[] chunk = chunk(lookup, count, keyOf);
            long begin = System.nanoTime();
            for (String key : chunk) {
                offsets.clear();
                file.selectPhyOffset(offsets, key, 32, 0, Long.MAX_VALUE);
                for (int i = 0; i < offsets.size(); i++) {
                    sum += offsets.get(i);
                }
                found += offsets.size();
            }
            nanos += System.nanoTime() - begin;
        }
        return StoreBench.answer(nanos, found, sum);
    }

    /** Unmaps the file of the last round; one that is about to be replaced is not written out first. */
    private void leave(String replaced) {
        if (file != null && path.equals(replaced)) {
            file.destroy(0);
        } else if (file != null) {
            file.shutdown();
        }
        file = null;
        path = null;
    }

    private void opened(String at) throws IOException {
        path = at;
        inode = inode(at);
    }

    private static Object inode(String at) throws IOException {
        return Files.readAttributes(Path.of(at), BasicFileAttributes.class).fileKey();
    }

    /** New index keys for the numbers from {@code from} on, at most {@value #CHUNK} of them. */
    private String[] chunk(long from, long end, LongUnaryOperator keyOf) {
        String[] chunk = new String[(int) Math.min(CHUNK, end - from)];
        for (int i = 0; i < chunk.length; i++) {
            chunk[i] = indexKey(keyOf.applyAsLong(from + i));
        }
        return chunk;
    }

    private String indexKey(long number) {
        byte[] text = new byte[TOPIC.length + 32];
        System.arraycopy(TOPIC, 0, text, 0, TOPIC.length);
        int at = TOPIC.length;
        for (int part = 0; part < 4; part++) {
            long bits = StoreBench.splitmix64(seed + 4 * number + part);
            for (int shift = 28; shift >= 0; shift -= 4) {
                text[at++] = DIGITS[(int) (bits >>> shift) & 15];
            }
        }
        return new String(text, StandardCharsets.ISO_8859_1);
    }
}
