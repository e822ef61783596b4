package org.rocketstore.interop;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.rocketmq.broker.offset.ConsumerOffsetManager;
import org.apache.rocketmq.broker.offset.LmqConsumerOffsetManager;
import org.apache.rocketmq.broker.schedule.DelayOffsetSerializeWrapper;
import org.apache.rocketmq.broker.subscription.SubscriptionGroupManager;
import org.apache.rocketmq.broker.topic.TopicConfigManager;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;

/**
 * What a broker's managers make of the text of a configuration file. One command:
 *
 * <pre>
 * decode  FILES OUT   each of FILES has "name" and "data" (base64); the answer has "value", or "error" where the
 *                     manager throws, so that the broker uses the .bak
 * </pre>
 */
final class Configs {
    private Configs() {
    }

    static int decode(List<Map<String, Object>> files, Path out) throws Exception {
        List<String> lines = new ArrayList<>();
        for (Map<String, Object> file : files) {
            byte[] data = Base64.getDecoder().decode((String) file.get("data"));
            lines.add(Json.write(answer((String) file.get("name"), new String(data, StandardCharsets.UTF_8))));
        }
        Files.write(out, lines);
        return lines.size();
    }

    private static Map<String, Object> answer(String name, String text) {
        try {
            return Json.of("value", value(name, text));
        } catch (Throwable e) {
            return Json.of("error", e.getClass().getSimpleName());
        }
    }

    private static Object value(String name, String text) throws Exception {
        switch (name) {
            case "topics.json":
                return topics(text);
            case "subscriptionGroup.json":
                return groups(text);
            case "consumerOffset.json":
                ConsumerOffsetManager offsets = new ConsumerOffsetManager();
                offsets.decode(text);
                return offsets(offsets.getOffsetTable());
            case "lmqConsumerOffset.json":
                LmqConsumerOffsetManager light = new LmqConsumerOffsetManager();
                light.decode(text);
                return Json.of("offsetTable", offsets(light.getOffsetTable()),
                    "lmqOffsetTable", new TreeMap<>(light.getLmqOffsetTable()));
            case "delayOffset.json":
                return delays(text);
            default:
                throw new IllegalArgumentException(name);
        }
    }

    private static Object topics(String text) {
        TopicConfigManager manager = new TopicConfigManager();
        manager.decode(text);
        Map<String, Object> topics = new TreeMap<>();
        for (Map.Entry<String, TopicConfig> entry : manager.getTopicConfigTable().entrySet()) {
            TopicConfig topic = entry.getValue();
            topics.put(entry.getKey(), Json.of(
                "topicName", topic.getTopicName(), "readQueueNums", (long) topic.getReadQueueNums(),
                "writeQueueNums", (long) topic.getWriteQueueNums(), "perm", (long) topic.getPerm(),
                "topicFilterType", topic.getTopicFilterType() == null ? null : topic.getTopicFilterType().name(),
                "topicSysFlag", (long) topic.getTopicSysFlag(), "order", topic.isOrder(),
                "attributes", topic.getAttributes()));
        }
        return topics;
    }

    private static Object groups(String text) {
        SubscriptionGroupManager manager = new SubscriptionGroupManager();
        manager.getSubscriptionGroupTable().clear();
        manager.decode(text);
        Map<String, Object> groups = new TreeMap<>();
        for (Map.Entry<String, SubscriptionGroupConfig> entry : manager.getSubscriptionGroupTable().entrySet()) {
            SubscriptionGroupConfig group = entry.getValue();
            groups.put(entry.getKey(), Json.of(
                "groupName", group.getGroupName(), "consumeEnable", group.isConsumeEnable(),
                "retryQueueNums", (long) group.getRetryQueueNums(), "retryMaxTimes", (long) group.getRetryMaxTimes(),
                "brokerId", group.getBrokerId(), "attributes", group.getAttributes()));
        }
        return groups;
    }

    /** As ScheduleMessageService.decode, which needs a whole broker around it. */
    private static Object delays(String text) {
        DelayOffsetSerializeWrapper wrapper =
            DelayOffsetSerializeWrapper.fromJson(text, DelayOffsetSerializeWrapper.class);
        Map<Integer, Long> offsets = new ConcurrentHashMap<>();
        if (wrapper != null) {
            offsets.putAll(wrapper.getOffsetTable());
        }
        return queues(offsets);
    }

    private static Object offsets(Map<String, ? extends Map<Integer, Long>> table) {
        Map<String, Object> offsets = new TreeMap<>();
        table.forEach((key, queues) -> offsets.put(key, queues(queues)));
        return offsets;
    }

    private static Object queues(Map<Integer, Long> queues) {
        Map<String, Object> offsets = new TreeMap<>();
        queues.forEach((queue, offset) -> offsets.put(String.valueOf(queue), offset));
        return offsets;
    }
}
