package org.rocketstore.interop;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;

import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.constant.PermName;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;

/**
 * A name server, and RocketMQ's client that finds brokers by it. Commands as Harness reads them:
 *
 * <pre>
 * start                    starts the name server on a free port of 127.0.0.1, answers the port
 * wait    BROKER TOPICS    returns when the name server knows that the broker at this port has the topics
 * send    MESSAGES OUT     DefaultMQProducer.send, one after the other until one fails
 * consume TOPICS OUT       all messages of all queues of topics joined by commas
 * query   REQUESTS OUT     by key or, with unique, by unique key: the messages found
 * stats   REQUESTS OUT     how far a group has consumed, as the broker at a port tells mqadmin: its offset tables
 * decode  FILES OUT        what a broker makes of configuration files, see Configs
 * boot    ROOT CONFIG      starts and stops a broker over a store, see Boots
 * </pre>
 */
public final class Client {
    private static final String BROKER = "interop";
    private static final int MESSAGES_A_PULL = 32;
    private static final int DAY = 24 * 3600 * 1000;

    // Kept: to shut one down can take three seconds.
    private final DefaultMQProducer producer = new DefaultMQProducer("interop-producer");
    private final DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("interop-consumer");

    public static void main(String[] args) throws Exception {
        Harness.serve(new Client()::run);
    }

    private Object run(String command, String[] args) throws Exception {
        switch (command) {
            case "start":
                return start();
            case "wait":
                return await("127.0.0.1:" + args[0], args[1].split(","));
            case "send":
                return send(Json.lines(args[0]), Path.of(args[1]));
            case "consume":
                return consume(args[0].split(","), Path.of(args[1]));
            case "decode":
                return Configs.decode(Json.lines(args[0]), Path.of(args[1]));
            case "query":
                return query(Json.lines(args[0]), Path.of(args[1]));
            case "stats":
                return stats(Json.lines(args[0]), Path.of(args[1]));
            case "boot":
                return Boots.boot(args);
            default:
                return null;
        }
    }

    private int start() throws Exception {
        NettyServerConfig config = new NettyServerConfig();
        config.setBindAddress("127.0.0.1");
        config.setListenPort(0);
        NamesrvController controller = new NamesrvController(new NamesrvConfig(), config);
        if (!controller.initialize()) {
            throw new IllegalStateException("NamesrvController.initialize answered false");
        }
        controller.start();
        int port = controller.getRemotingServer().localListenPort();
        String namesrv = "127.0.0.1:" + port;
        producer.setNamesrvAddr(namesrv);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        consumer.setNamesrvAddr(namesrv);
        consumer.start();
        return port;
    }

    /** A broker that finds no name server at its start asks again after 10 s; some changes make it ask at once. */
    private int await(String broker, String[] topics) throws Exception {
        Properties asItIs = new Properties();
        asItIs.setProperty("brokerPermission", String.valueOf(PermName.PERM_READ | PermName.PERM_WRITE));
        for (int tries = 1;; tries++) {
            consumer.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory().getMQClientAPIImpl()
                .updateBrokerConfig(broker, asItIs, 5000);
            try {
                int queues = 0;
                for (String topic : topics) {
                    queues += consumer.fetchSubscribeMessageQueues(topic).size();
                }
                return queues;
            } catch (MQClientException e) {
                if (tries == 200) {
                    throw e;
                }
                Thread.sleep(50);
            }
        }
    }

    /** Messages of topic, queueId, body in base64, and properties, which a client's own are added to. */
    private int send(List<Map<String, Object>> messages, Path out) throws Exception {
        List<String> lines = new ArrayList<>();
        for (Map<String, Object> message : messages) {
            Map<String, Object> sent = send(message);
            lines.add(Json.write(sent));
            if (sent.containsKey("error")) {
                break;
            }
        }
        Files.write(out, lines);
        return lines.size();
    }

    @SuppressWarnings("unchecked")
    private Map<String, Object> send(Map<String, Object> message) {
        String topic = (String) message.get("topic");
        Message made = new Message(topic, Base64.getDecoder().decode((String) message.get("body")));
        ((Map<String, String>) message.get("properties")).forEach((k, v) -> MessageAccessor.putProperty(made, k, v));
        MessageQueue queue = new MessageQueue(topic, BROKER, ((Long) message.get("queueId")).intValue());
        try {
            SendResult result = producer.send(made, queue);
            return Json.of("status", result.getSendStatus(), "msgId", result.getMsgId(),
                "offsetMsgId", result.getOffsetMsgId(), "queueOffset", result.getQueueOffset());
        } catch (Exception e) { // whatever it is when a broker dies
            return Json.of("error", e.toString());
        }
    }

    private int consume(String[] topics, Path out) throws Exception {
        List<String> lines = new ArrayList<>();
        for (String topic : topics) {
            for (MessageQueue queue : new TreeSet<>(consumer.fetchSubscribeMessageQueues(topic))) {
                consume(queue, lines);
            }
        }
        Files.write(out, lines);
        return lines.size();
    }

    private void consume(MessageQueue queue, List<String> lines) throws Exception {
        long offset = consumer.minOffset(queue);
        long end = consumer.maxOffset(queue);
        while (offset < end) {
            PullResult pulled = consumer.pull(queue, "*", offset, MESSAGES_A_PULL);
            switch (pulled.getPullStatus()) {
                case FOUND:
                    pulled.getMsgFoundList().forEach(message -> lines.add(Json.write(describe(message))));
                    break;
                case NO_MATCHED_MSG:
                    break;
                default:
                    throw new IllegalStateException(queue + " at " + offset + " of " + end + ": " + pulled);
            }
            offset = pulled.getNextBeginOffset();
        }
    }

    /** Requests of topic, key, and unique. */
    private int query(List<Map<String, Object>> requests, Path out) throws Exception {
        List<String> lines = new ArrayList<>();
        for (Map<String, Object> request : requests) {
            List<Object> found = new ArrayList<>();
            query(request).forEach(message -> found.add(describe(message)));
            lines.add(Json.write(found));
        }
        Files.write(out, lines);
        return lines.size();
    }

    private List<MessageExt> query(Map<String, Object> request) throws Exception {
        String topic = (String) request.get("topic");
        String key = (String) request.get("key");
        try {
            if (Boolean.TRUE.equals(request.get("unique"))) {
                MessageExt found = consumer.viewMessage(topic, key);
                return found == null ? List.of() : List.of(found);
            }
            long now = System.currentTimeMillis();
            return consumer.queryMessage(topic, key, MESSAGES_A_PULL, now - DAY, now + DAY).getMessageList();
        } catch (MQClientException nothingFound) {
            return List.of();
        }
    }

    /** Requests of broker, a port, and group: GET_CONSUME_STATS for all topics of the group. */
    private int stats(List<Map<String, Object>> requests, Path out) throws Exception {
        List<String> lines = new ArrayList<>();
        for (Map<String, Object> request : requests) {
            List<Object> rows = new ArrayList<>();
            consumer.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory().getMQClientAPIImpl()
                .getConsumeStats("127.0.0.1:" + request.get("broker"), (String) request.get("group"), 5000)
                .getOffsetTable().forEach((queue, offsets) -> rows.add(Json.of("topic", queue.getTopic(),
                    "queueId", queue.getQueueId(), "consumerOffset", offsets.getConsumerOffset(),
                    "brokerOffset", offsets.getBrokerOffset())));
            lines.add(Json.write(rows));
        }
        Files.write(out, lines);
        return lines.size();
    }

    private static Map<String, Object> describe(MessageExt message) {
        String offsetMsgId =
            message instanceof MessageClientExt ? ((MessageClientExt) message).getOffsetMsgId() : message.getMsgId();
        return Json.of("topic", message.getTopic(), "queueId", message.getQueueId(),
            "queueOffset", message.getQueueOffset(), "phyOffset", message.getCommitLogOffset(),
            "offsetMsgId", offsetMsgId, "storeTimestamp", message.getStoreTimestamp(),
            "properties", message.getProperties(), "body", Base64.getEncoder().encodeToString(message.getBody()));
    }
}
