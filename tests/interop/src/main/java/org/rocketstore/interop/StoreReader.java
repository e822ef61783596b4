package org.rocketstore.interop;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.CommitLog;
import org.apache.rocketmq.store.ConsumeQueueExt;
import org.apache.rocketmq.store.DefaultMessageFilter;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;

/** The command that reads a store, and changes it as far as RocketMQ does. */
final class StoreReader {
    private static final int UNIT = 20;

    private final DefaultMessageStore store;

    private StoreReader(DefaultMessageStore store) {
        this.store = store;
    }

    /**
     * Opens ROOT, answers requests with a line each, an exception as {@code error}, and deletes ROOT. Besides the
     * options of {@link Stores} there is {@code load}: DefaultMessageStore.load, recovery included; false takes commit
     * log and queues as they are, the queues up to their first invalid unit. Requests, by {@code op}:
     * <pre>
     * log                                           minOffset maxOffset
     * records [from] checkCrc checkDup readBody     every record from an offset, to what is none; of every file
     * record offset checkCrc checkDup readBody      one record, or null
     * queues                                        every queue with its units
     * offset_by_time topic queueId timestamp [boundary]
     * get_message topic queueId offset maxNum [tags]
     * query_message topic key maxNum begin end [indexType]
     * look_message offset
     * delete_expired                                what a broker deletes now; the files that are left
     * </pre>
     */
    static String read(String[] args) throws Exception {
        Path root = Path.of(args[0]);
        Map<String, Object> options = Json.object(args[1]);
        DefaultMessageStore store = Stores.create(root, options);
        if ((Boolean) options.get("load")) {
            if (!store.load()) {
                throw new IllegalStateException("DefaultMessageStore.load answered false");
            }
        } else {
            loadAsIs(store);
        }
        Reflect.set(store, "shutdown", false); // else getMessage and queryMessage refuse
        List<String> lines = answers(store, Json.lines(args[2]));
        Stores.discard(store, root);
        Files.write(Path.of(args[3]), lines);
        return String.valueOf(lines.size());
    }

    /** The answers of a store that was loaded, a line each. */
    static List<String> answers(DefaultMessageStore store, List<Map<String, Object>> requests) throws Exception {
        StoreReader reader = new StoreReader(store);
        List<String> lines = new ArrayList<>();
        for (Map<String, Object> request : requests) {
            lines.add(Json.write(reader.answerOrError(request)));
        }
        return lines;
    }

    private static void loadAsIs(DefaultMessageStore store) throws Exception {
        store.getCommitLog().load();
        if (Reflect.has(store, "getQueueStore", 0)) {
            Reflect.call(Reflect.call(store, "getQueueStore"), "load");
        } else {
            Reflect.call(store, "loadConsumeQueue");
            Reflect.call(Reflect.call(store, "getScheduleMessageService"), "load"); // reads the delay levels
        }
        for (Object queue : queues(store)) {
            Reflect.call(queue, "recover");
        }
    }

    static List<Object> queues(DefaultMessageStore store) throws Exception {
        List<Object> queues = new ArrayList<>();
        for (Object table : ((Map<?, ?>) Reflect.call(store, "getConsumeQueueTable")).values()) {
            queues.addAll(((Map<?, ?>) table).values());
        }
        return queues;
    }

    private Object answerOrError(Map<String, Object> request) {
        try {
            return answer(request);
        } catch (Exception e) {
            return Json.of("error", String.valueOf(e.getCause() == null ? e : e.getCause()));
        }
    }

    private Object answer(Map<String, Object> request) throws Exception {
        switch ((String) request.get("op")) {
            case "log":
                return Json.of("minOffset", store.getMinPhyOffset(), "maxOffset", store.getMaxPhyOffset());
            case "records":
                return records(request);
            case "record":
                return record(request);
            case "queues":
                return queueRows();
            case "offset_by_time":
                return offsetByTime(request);
            case "get_message":
                return getMessage(request);
            case "query_message":
                return queryMessage(request);
            case "look_message":
                MessageExt message = store.lookMessageByOffset((Long) request.get("offset"));
                return message == null ? null : Records.message(message);
            case "delete_expired":
                return deleteExpired();
            default:
                throw new IllegalArgumentException("no request " + request);
        }
    }

    private List<Object> deleteExpired() throws Exception {
        Reflect.call(Reflect.get(store, "cleanCommitLogService"), "run");
        Object owner = Reflect.get(store, "cleanConsumeQueueService") == null
            ? Reflect.call(store, "getQueueStore") : store;
        Reflect.call(Reflect.get(owner, "cleanConsumeQueueService"), "run");
        Path root = Path.of(store.getMessageStoreConfig().getStorePathRootDir());
        try (Stream<Path> files = Files.walk(root)) {
            return files.filter(Files::isRegularFile).map(file -> root.relativize(file).toString())
                .sorted().collect(Collectors.toList());
        }
    }

    private List<Object> records(Map<String, Object> request) throws Exception {
        CommitLog log = store.getCommitLog();
        List<Object> rows = new ArrayList<>();
        long offset = request.get("from") == null ? log.getMinOffset() : (Long) request.get("from");
        SelectMappedBufferResult file = log.getData(offset, false);
        while (file != null) {
            ByteBuffer buffer = file.getByteBuffer();
            while (buffer.hasRemaining()) {
                long at = file.getStartOffset() + buffer.position();
                Map<String, Object> row = Records.read(log, buffer, request);
                row.put("at", at);
                rows.add(row);
                if (row.get("message") == null) {
                    break;
                }
            }
            file.release();
            offset = log.rollNextFile(offset);
            file = log.getData(offset, false);
        }
        return rows;
    }

    private Object record(Map<String, Object> request) throws Exception {
        SelectMappedBufferResult file = store.getCommitLog().getData((Long) request.get("offset"), false);
        if (file == null) {
            return null;
        }
        Map<String, Object> row = Records.read(store.getCommitLog(), file.getByteBuffer(), request);
        file.release();
        return row;
    }

    private List<Object> queueRows() throws Exception {
        List<Object> rows = new ArrayList<>();
        for (Object queue : queues(store)) {
            boolean simple = Reflect.has(queue, "getIndexBuffer", 1);
            rows.add(Json.of("topic", Reflect.call(queue, "getTopic"), "queueId", Reflect.call(queue, "getQueueId"),
                "type", simple ? "SimpleCQ" : "BatchCQ", "min", Reflect.call(queue, "getMinOffsetInQueue"),
                "max", Reflect.call(queue, "getMaxOffsetInQueue"), "units", simple ? plainUnits(queue) : units(queue)));
        }
        return rows;
    }

    /** The units as they are stored, from the minimum on, filler units too; and where an ext address leads to. */
    private List<Object> plainUnits(Object queue) throws Exception {
        List<Object> units = new ArrayList<>();
        long end = (Long) Reflect.call(queue, "getMaxOffsetInQueue");
        Object files = Reflect.get(queue, "mappedFileQueue");
        long first = (Long) Reflect.call(files, "getMinOffset") / UNIT;
        long offset = Math.max(first, (Long) Reflect.call(queue, "getMinOffsetInQueue"));
        while (offset < end) {
            SelectMappedBufferResult part = (SelectMappedBufferResult) Reflect.call(queue, "getIndexBuffer", offset);
            for (ByteBuffer buffer = part.getByteBuffer(); buffer.remaining() >= UNIT; offset++) {
                Map<String, Object> unit = Json.of("queueOffset", offset, "pos", buffer.getLong(),
                    "size", buffer.getInt(), "tagsCode", buffer.getLong());
                unit.put("ext", ext(queue, (Long) unit.get("tagsCode")));
                units.add(unit);
            }
            part.release();
        }
        return units;
    }

    private static Object ext(Object queue, long address) throws Exception {
        ConsumeQueueExt.CqExtUnit unit = new ConsumeQueueExt.CqExtUnit();
        if (!ConsumeQueueExt.isExtAddr(address) || !(Boolean) Reflect.call(queue, "getExt", address, unit)) {
            return null;
        }
        byte[] bits = unit.getFilterBitMap();
        return Json.of("tagsCode", unit.getTagsCode(), "msgStoreTime", unit.getMsgStoreTime(),
            "filterBitMap", bits == null ? null : Records.base64(bits));
    }

    private List<Object> units(Object queue) throws Exception {
        List<Object> units = new ArrayList<>();
        long offset = (Long) Reflect.call(queue, "getMinOffsetInQueue");
        long end = (Long) Reflect.call(queue, "getMaxOffsetInQueue");
        while (offset < end) {
            Iterator<?> some = (Iterator<?>) Reflect.call(queue, "iterateFrom", offset);
            while (some.hasNext()) {
                Object unit = some.next();
                long first = (Long) Reflect.call(unit, "getQueueOffset");
                int batchNum = ((Number) Reflect.call(unit, "getBatchNum")).intValue();
                units.add(Json.of("queueOffset", first, "pos", Reflect.call(unit, "getPos"),
                    "size", Reflect.call(unit, "getSize"), "tagsCode", Reflect.call(unit, "getTagsCode"),
                    "batchNum", batchNum, "compactedOffset", Reflect.call(unit, "getCompactedOffset")));
                offset = first + batchNum;
            }
            Reflect.call(some, "release");
        }
        return units;
    }

    private Object offsetByTime(Map<String, Object> request) throws Exception {
        String topic = (String) request.get("topic");
        int queueId = integer(request, "queueId");
        long timestamp = (Long) request.get("timestamp");
        String boundary = (String) request.get("boundary");
        if (boundary == null) {
            return store.getOffsetInQueueByTime(topic, queueId, timestamp);
        }
        Object type = Class.forName("org.apache.rocketmq.common.BoundaryType").getField(boundary).get(null);
        return Reflect.call(store, "getOffsetInQueueByTime", topic, queueId, timestamp, type);
    }

    private Object getMessage(Map<String, Object> request) throws Exception {
        Object filter = request.get("tags") == null ? null : filter((String) request.get("tags"));
        GetMessageResult result = (GetMessageResult) Reflect.call(store, "getMessage", "group", request.get("topic"),
            integer(request, "queueId"), request.get("offset"), integer(request, "maxNum"), filter);
        Map<String, Object> row = Json.of("status", result.getStatus(), "nextBeginOffset", result.getNextBeginOffset(),
            "minOffset", result.getMinOffset(), "maxOffset", result.getMaxOffset(),
            "messageCount", result.getMessageCount(), "phyOffsets", phyOffsets(result.getMessageBufferList()),
            "queueOffsets", Reflect.callIfAny(result, "getMessageQueueOffset"));
        result.release();
        return row;
    }

    /** Tags as in a subscription, "a||b". */
    @SuppressWarnings("unchecked")
    private static Object filter(String tags) throws Exception {
        Object subscription = Reflect.any("org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData",
            "org.apache.rocketmq.common.protocol.heartbeat.SubscriptionData").getConstructor().newInstance();
        Reflect.call(subscription, "setSubString", tags);
        for (String tag : tags.split("\\|\\|")) {
            ((Set<String>) Reflect.call(subscription, "getTagsSet")).add(tag.trim());
            ((Set<Integer>) Reflect.call(subscription, "getCodeSet")).add(tag.trim().hashCode());
        }
        return Reflect.construct(DefaultMessageFilter.class, subscription);
    }

    private Object queryMessage(Map<String, Object> request) throws Exception {
        String topic = (String) request.get("topic");
        String key = (String) request.get("key");
        int maxNum = integer(request, "maxNum");
        long begin = (Long) request.get("begin");
        long end = (Long) request.get("end");
        Object indexType = request.get("indexType");
        QueryMessageResult result = indexType == null ? store.queryMessage(topic, key, maxNum, begin, end)
            : (QueryMessageResult) Reflect.call(store, "queryMessage", topic, key, maxNum, begin, end, indexType, null);
        Map<String, Object> row = Json.of("phyOffsets", phyOffsets(result.getMessageBufferList()),
            "indexLastUpdateTimestamp", result.getIndexLastUpdateTimestamp(),
            "indexLastUpdatePhyOffset", result.getIndexLastUpdatePhyoffset());
        result.release();
        return row;
    }

    private static List<Object> phyOffsets(List<ByteBuffer> records) {
        List<Object> offsets = new ArrayList<>();
        for (ByteBuffer record : records) {
            offsets.add(record.getLong(28));
        }
        return offsets;
    }

    private static int integer(Map<String, Object> request, String name) {
        return ((Long) request.get(name)).intValue();
    }
}
