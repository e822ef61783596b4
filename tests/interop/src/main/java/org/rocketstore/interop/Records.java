package org.rocketstore.interop;

import java.lang.reflect.InvocationTargetException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;

import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.CommitLog;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.DispatchRequest;

/** Records as CommitLog and MessageDecoder read them, and the commands that read bytes without a store. */
final class Records {
    private static DefaultMessageStore parsing;

    private Records() {
    }

    /**
     * Requests {@code data checkCrc checkDup readBody forceVerifyPropCrc}; writes a line {@code dispatch message},
     * or {@code error}, for each.
     */
    static String parse(String[] args) throws Exception {
        if (parsing == null) {
            Map<String, Object> options = Json.of("config", Map.of(), "batchTopics", List.of());
            parsing = Stores.create(Files.createTempDirectory("parse"), options);
            parsing.load();
        }
        List<String> lines = new ArrayList<>();
        for (Map<String, Object> request : Json.lines(args[0])) {
            Reflect.callIfAny(parsing.getMessageStoreConfig(), "setForceVerifyPropCRC",
                request.get("forceVerifyPropCrc"));
            ByteBuffer buffer = ByteBuffer.wrap(bytes(request));
            lines.add(Json.write(read(parsing.getCommitLog(), buffer, request)));
        }
        Files.write(Path.of(args[1]), lines);
        return String.valueOf(lines.size());
    }

    /** Requests {@code data}; writes {@code text}, the data as Java decodes UTF-8, and {@code properties} for each. */
    static String text(String[] args) throws Exception {
        List<String> lines = new ArrayList<>();
        for (Map<String, Object> request : Json.lines(args[0])) {
            String text = new String(bytes(request), StandardCharsets.UTF_8);
            lines.add(Json.write(Json.of("text", text, "properties", MessageDecoder.string2messageProperties(text))));
        }
        Files.write(Path.of(args[1]), lines);
        return String.valueOf(lines.size());
    }

    private static byte[] bytes(Map<String, Object> request) {
        return Base64.getDecoder().decode((String) request.get("data"));
    }

    /** Reads the record at the buffer's position, which moves on as CommitLog moves it. */
    static Map<String, Object> read(CommitLog log, ByteBuffer buffer, Map<String, Object> flags) throws Exception {
        ByteBuffer record = buffer.slice();
        Map<String, Object> row = Json.of("dispatch", null);
        try {
            DispatchRequest request = check(log, buffer, flags);
            row.put("dispatch", dispatch(request));
            if (request.isSuccess() && request.getMsgSize() > 0 && request.getMsgSize() <= record.remaining()) {
                record.limit(request.getMsgSize());
                row.put("message", decode(record));
            }
        } catch (InvocationTargetException e) {
            row.put("error", String.valueOf(e.getCause()));
        }
        return row;
    }

    /** 4.x does not know checkDup. */
    private static DispatchRequest check(CommitLog log, ByteBuffer buffer, Map<String, Object> flags) throws Exception {
        boolean crc = (Boolean) flags.get("checkCrc");
        boolean body = (Boolean) flags.get("readBody");
        if (Reflect.has(log, "checkMessageAndReturnSize", 4)) {
            return (DispatchRequest) Reflect.call(log, "checkMessageAndReturnSize", buffer, crc,
                (Boolean) flags.get("checkDup"), body);
        }
        return (DispatchRequest) Reflect.call(log, "checkMessageAndReturnSize", buffer, crc, body);
    }

    static Map<String, Object> dispatch(DispatchRequest request) throws Exception {
        return Json.of("success", request.isSuccess(), "msgSize", request.getMsgSize(), "topic", request.getTopic(),
            "queueId", request.getQueueId(), "commitLogOffset", request.getCommitLogOffset(),
            "tagsCode", request.getTagsCode(), "storeTimestamp", request.getStoreTimestamp(),
            "consumeQueueOffset", request.getConsumeQueueOffset(), "keys", request.getKeys(),
            "uniqKey", request.getUniqKey(), "sysFlag", request.getSysFlag(),
            "preparedTransactionOffset", request.getPreparedTransactionOffset(),
            "properties", request.getPropertiesMap(), "batchSize", Reflect.callIfAny(request, "getBatchSize"),
            "msgBaseOffset", Reflect.callIfAny(request, "getMsgBaseOffset"));
    }

    /** Null where MessageDecoder gives none. {@code plainBody} is decompressed, null where that fails. */
    static Map<String, Object> decode(ByteBuffer record) {
        MessageExt stored = MessageDecoder.decode(record.duplicate(), true, false);
        if (stored == null) {
            return null;
        }
        MessageExt plain = MessageDecoder.decode(record.duplicate(), true, true);
        Map<String, Object> row = message(stored);
        row.put("plainBody", plain == null ? null : base64(plain.getBody()));
        return row;
    }

    static Map<String, Object> message(MessageExt message) {
        return Json.of("topic", message.getTopic(), "queueId", message.getQueueId(),
            "queueOffset", message.getQueueOffset(), "commitLogOffset", message.getCommitLogOffset(),
            "storeSize", message.getStoreSize(), "flag", message.getFlag(), "sysFlag", message.getSysFlag(),
            "bornTimestamp", message.getBornTimestamp(), "bornHost", host(message.getBornHost()),
            "storeTimestamp", message.getStoreTimestamp(), "storeHost", host(message.getStoreHost()),
            "reconsumeTimes", message.getReconsumeTimes(),
            "preparedTransactionOffset", message.getPreparedTransactionOffset(), "bodyCrc", message.getBodyCRC(),
            "msgId", message.getMsgId(), "keys", message.getKeys(), "tags", message.getTags(),
            "body", base64(message.getBody()), "properties", message.getProperties());
    }

    static String base64(byte[] bytes) {
        return bytes == null ? "" : Base64.getEncoder().encodeToString(bytes);
    }

    private static String host(SocketAddress address) {
        InetSocketAddress host = (InetSocketAddress) address;
        String text = host.getAddress().getHostAddress();
        return (text.indexOf(':') < 0 ? text : "[" + text + "]") + ":" + host.getPort();
    }
}
