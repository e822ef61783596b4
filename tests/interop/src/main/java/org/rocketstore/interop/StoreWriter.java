package org.rocketstore.interop;

import java.lang.reflect.InvocationTargetException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.store.AppendMessageResult;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.PutMessageResult;

/** The command that writes a store. */
final class StoreWriter {
    private static final int INNER_BATCH = 0x80 | 0x40;
    private static final int MESSAGES_BETWEEN_WAITS = 8;

    private final DefaultMessageStore store;
    private final boolean keepsStoreTime;
    private final Map<String, Long> queueOffsets = new HashMap<>();

    private StoreWriter(DefaultMessageStore store, boolean keepsStoreTime) {
        this.store = store;
        this.keepsStoreTime = keepsStoreTime;
        store.getMessageStoreConfig().setDuplicationEnable(keepsStoreTime);
    }

    /**
     * Puts messages into a store in ROOT, a new one or one that was stopped. Besides those of {@link Stores}, an option
     * {@code crash}: ROOT, which must be new, is then what a killed process leaves; or {@code crashCopy}: a directory
     * to be made, which is so. Writes a line of results for each message, status EXCEPTION if the store threw one. A
     * message has
     * <pre>
     * topic, queueId, flag, sysFlag, bornTimestamp, bornHost, storeHost, reconsumeTimes, preparedTransactionOffset
     * body              base64
     * properties        a map; or propertiesText, the string that is stored
     * storeTimestamp    for stores with duplicationEnable, which keep it
     * batch             a list of {body, properties, flag}: a client's batch instead of a body; with innerBatch true
     *                   kept as one record
     * compression       ZLIB, LZ4, ZSTD: the body is compressed as a client does
     * deleteTopics      instead of all others: a list of topics to be deleted, as an administrator does
     * </pre>
     */
    static String write(String[] args) throws Exception {
        Path root = Path.of(args[0]);
        Map<String, Object> options = Json.object(args[1]);
        boolean crash = (Boolean) options.get("crash");
        Path running = crash ? root.resolveSibling(root.getFileName() + "-running") : root;
        // With duplicationEnable recovery takes records without DUP_INFO for bad.
        boolean keepsStoreTime = Boolean.TRUE.equals(config(options).put("duplicationEnable", false));
        DefaultMessageStore store = Stores.create(running, options);
        if (!store.load()) {
            throw new IllegalStateException("DefaultMessageStore.load answered false");
        }
        store.start();
        List<String> lines = new StoreWriter(store, keepsStoreTime).putAll(Json.lines(args[2]));
        if (crash) {
            // Page cache and mappings are one, so a copy now is what the files of a killed process hold.
            Stores.copy(running, root);
            new Thread(() -> Stores.end(store, running)).start(); // takes seconds, which nobody needs to wait
        } else {
            String copy = (String) options.get("crashCopy");
            if (copy != null) {
                Stores.copy(root, Path.of(copy));
            }
            Stores.shutdown(store);
        }
        Files.write(Path.of(args[3]), lines);
        return String.valueOf(lines.size());
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> config(Map<String, Object> options) {
        return (Map<String, Object>) options.get("config");
    }

    /** Puts messages into a running store with the store's own clock; returns a line of results for each. */
    static List<String> putAll(DefaultMessageStore store, List<Map<String, Object>> messages) throws Exception {
        return new StoreWriter(store, false).putAll(messages);
    }

    private List<String> putAll(List<Map<String, Object>> messages) throws Exception {
        List<String> lines = new ArrayList<>();
        for (Map<String, Object> message : messages) {
            lines.add(Json.write(answer(message)));
            if (lines.size() % MESSAGES_BETWEEN_WAITS == 0) {
                Stores.settle(store);
            }
        }
        Stores.settle(store);
        return lines;
    }

    private Map<String, Object> answer(Map<String, Object> message) throws Exception {
        List<?> topics = (List<?>) message.get("deleteTopics");
        if (topics != null) {
            deleteTopics(topics);
            return Json.of("status", "DELETED");
        }
        try {
            return result(put(message));
        } catch (InvocationTargetException e) {
            return Json.of("status", "EXCEPTION", "exception", e.getCause().toString());
        }
    }

    /** Releases before 5.0 delete the queues of all topics but some. */
    private void deleteTopics(List<?> topics) throws Exception {
        Stores.settle(store);
        if (Reflect.has(store, "deleteTopics", 1)) {
            // The harness has no statistics to delete.
            Reflect.call(Reflect.call(store, "getBrokerConfig"), "setAutoDeleteUnusedStats", false);
            Reflect.call(store, "deleteTopics", new HashSet<>(topics));
        } else {
            Set<Object> kept = new HashSet<>(((Map<?, ?>) Reflect.call(store, "getConsumeQueueTable")).keySet());
            kept.removeAll(topics);
            Reflect.call(store, "cleanUnusedTopic", kept);
        }
        queueOffsets.keySet().removeIf(queue -> topics.contains(queue.substring(0, queue.lastIndexOf('-'))));
    }

    private PutMessageResult put(Map<String, Object> message) throws Exception {
        List<?> batch = (List<?>) message.get("batch");
        if (batch != null && !Boolean.TRUE.equals(message.get("innerBatch"))) {
            MessageExtBatch made = new MessageExtBatch();
            fill(made, message);
            made.setBody(encode(batch));
            return (PutMessageResult) Reflect.call(store, "putMessages", made);
        }
        MessageExt made = (MessageExt) Reflect.any("org.apache.rocketmq.common.message.MessageExtBrokerInner",
            "org.apache.rocketmq.store.MessageExtBrokerInner").getConstructor().newInstance();
        fill(made, message);
        if (batch != null) {
            made.setBody(encode(batch));
            made.setSysFlag(made.getSysFlag() | INNER_BATCH);
            MessageAccessor.putProperty(made, "INNER_NUM", String.valueOf(batch.size()));
        } else {
            made.setBody(compressed(made, message));
        }
        Object text = message.get("propertiesText");
        Reflect.call(made, "setPropertiesString",
            text == null ? MessageDecoder.messageProperties2String(made.getProperties()) : text);
        if (!keepsStoreTime) {
            return (PutMessageResult) Reflect.call(store, "putMessage", made);
        }
        return putWithStoreTime(made, (Long) message.get("storeTimestamp"));
    }

    /** With duplicationEnable a store keeps the store time and the queue offset that a message comes with. */
    private PutMessageResult putWithStoreTime(MessageExt made, long storeTimestamp) throws Exception {
        String queue = made.getTopic() + "-" + made.getQueueId();
        int type = MessageSysFlag.getTransactionValue(made.getSysFlag());
        boolean counts =
            type == MessageSysFlag.TRANSACTION_NOT_TYPE || type == MessageSysFlag.TRANSACTION_COMMIT_TYPE;
        if (counts && !queueOffsets.containsKey(queue)) {
            queueOffsets.put(queue, store.getMaxOffsetInQueue(made.getTopic(), made.getQueueId()));
        }
        made.setStoreTimestamp(storeTimestamp);
        made.setQueueOffset(counts ? queueOffsets.get(queue) : 0);
        PutMessageResult result = (PutMessageResult) Reflect.call(store, "putMessage", made);
        if (counts && result.isOk()) {
            queueOffsets.merge(queue, 1L, Long::sum);
        }
        Reflect.call(store, "setConfirmOffset", store.getMaxPhyOffset());
        return result;
    }

    private static void fill(MessageExt made, Map<String, Object> message) throws Exception {
        made.setTopic((String) message.get("topic"));
        made.setQueueId(number(message, "queueId"));
        made.setFlag(number(message, "flag"));
        made.setSysFlag(number(message, "sysFlag"));
        made.setBornTimestamp((Long) message.get("bornTimestamp"));
        made.setBornHost(host((String) message.get("bornHost")));
        made.setStoreHost(host((String) message.get("storeHost")));
        made.setReconsumeTimes(number(message, "reconsumeTimes"));
        made.setPreparedTransactionOffset((Long) message.getOrDefault("preparedTransactionOffset", 0L));
        MessageAccessor.setProperties(made, properties(message));
    }

    private static int number(Map<String, Object> message, String name) {
        Long number = (Long) message.get(name);
        return number == null ? 0 : number.intValue();
    }

    @SuppressWarnings("unchecked")
    private static Map<String, String> properties(Map<String, Object> message) {
        Map<String, String> properties = (Map<String, String>) message.get("properties");
        return new HashMap<>(properties == null ? Map.of() : properties);
    }

    private static byte[] body(Map<String, Object> message) {
        return Base64.getDecoder().decode((String) message.get("body"));
    }

    private static byte[] compressed(MessageExt made, Map<String, Object> message) throws Exception {
        byte[] body = body(message);
        String name = (String) message.get("compression");
        if (name == null) {
            return body;
        }
        String compression = "org.apache.rocketmq.common.compression.";
        Class<?> types = Class.forName(compression + "CompressionType");
        Object type = types.getMethod("valueOf", String.class).invoke(null, name);
        int flag = (Integer) Reflect.call(type, "getCompressionFlag");
        made.setSysFlag(made.getSysFlag() | MessageSysFlag.COMPRESSED_FLAG | flag);
        Object compressor = Class.forName(compression + "CompressorFactory").getMethod("getCompressor", types)
            .invoke(null, type);
        return (byte[]) Reflect.call(compressor, "compress", body, 5);
    }

    @SuppressWarnings("unchecked")
    private static byte[] encode(List<?> batch) {
        List<Message> messages = new ArrayList<>();
        for (Object item : batch) {
            Map<String, Object> description = (Map<String, Object>) item;
            Message message = new Message();
            message.setBody(body(description));
            message.setFlag(number(description, "flag"));
            MessageAccessor.setProperties(message, properties(description));
            messages.add(message);
        }
        return MessageDecoder.encodeMessages(messages);
    }

    /** An address without a name to look up, and a port: 1.2.3.4:80, [::1]:80. */
    private static InetSocketAddress host(String text) throws Exception {
        int colon = text.lastIndexOf(':');
        String address = text.substring(0, colon);
        return new InetSocketAddress(InetAddress.getByName(address), Integer.parseInt(text.substring(colon + 1)));
    }

    private static Map<String, Object> result(PutMessageResult result) {
        AppendMessageResult append = result.getAppendMessageResult();
        Map<String, Object> row = Json.of("status", result.getPutMessageStatus());
        if (append != null) {
            row.putAll(Json.of("appendStatus", append.getStatus(), "wroteOffset", append.getWroteOffset(),
                "wroteBytes", append.getWroteBytes(), "msgId", append.getMsgId(),
                "logicsOffset", append.getLogicsOffset(), "storeTimestamp", append.getStoreTimestamp()));
        }
        return row;
    }
}
