package org.rocketstore.interop;

import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import org.apache.rocketmq.store.ConsumeQueue;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.DispatchRequest;
import org.apache.rocketmq.store.StoreCheckpoint;

/** The command on ConsumeQueue and BatchConsumeQueue, without a commit log. */
final class ConsumeQueues {
    private final Path root;
    private final DefaultMessageStore store;
    private final Map<String, Object> queues = new HashMap<>();

    private ConsumeQueues(Path root, DefaultMessageStore store) {
        this.root = root;
        this.store = store;
    }

    /**
     * Steps {@code {"queue": id, "batch": bool, "fileSize": n, "step": name, ...}} with queues of the directory ROOT,
     * which only has what the steps make. Writes after each what the queue shows, and all its files; or
     * {@code {"error": ...}}, as after each later step of that queue.
     */
    static String run(String[] args) throws Exception {
        Path root = Path.of(args[0]);
        DefaultMessageStore store = Stores.create(root, Json.object(args[1]));
        // Otherwise made by load, which would take up queues too.
        Reflect.set(store, "storeCheckpoint", new StoreCheckpoint(root.resolve("checkpoint").toString()));
        ConsumeQueues queues = new ConsumeQueues(root, store);
        List<String> lines = new ArrayList<>();
        for (Map<String, Object> step : Json.lines(args[2])) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                queues.take(step);
                queues.show(step, answer);
            } catch (Exception e) {
                Throwable cause = e.getCause() == null ? e : e.getCause();
                answer.put("error", cause.getClass().getSimpleName());
            }
            lines.add(Json.write(answer));
        }
        Files.write(Path.of(args[3]), lines);
        Stores.discard(store, root);
        return String.valueOf(lines.size());
    }

    private void take(Map<String, Object> step) throws Exception {
        switch ((String) step.get("step")) {
            case "put":
                for (Object row : (List<?>) step.get("rows")) {
                    put(queue(step), (List<?>) row);
                }
                break;
            case "reopen":
                queues.remove(key(step));
                Object queue = queue(step);
                if (!(boolean) Reflect.call(queue, "load")) {
                    throw new IllegalStateException("load answered false");
                }
                Reflect.call(queue, "recover");
                break;
            case "truncate":
                Reflect.call(queue(step), "truncateDirtyLogicFiles", number(step.get("offset")));
                break;
            case "expire":
                Reflect.call(queue(step), "deleteExpiredFile", number(step.get("offset")));
                break;
            case "correct":
                Reflect.call(queue(step), "correctMinOffset", number(step.get("offset")));
                break;
            case "damage":
                Path path = directory(step, type(step)).resolve((String) step.get("file"));
                try (RandomAccessFile file = new RandomAccessFile(path.toFile(), "rw")) {
                    file.seek(number(step.get("position")));
                    file.write(Base64.getDecoder().decode((String) step.get("data")));
                }
                break;
            default:
                throw new IllegalArgumentException("step " + step.get("step"));
        }
    }

    /** A row: offset, size, tags code, store time, queue offset, batch size. */
    private static void put(Object queue, List<?> row) throws Exception {
        DispatchRequest request = new DispatchRequest("topic", 0, number(row.get(0)), (int) number(row.get(1)),
            number(row.get(2)), number(row.get(3)), number(row.get(4)), "", null, 0, 0, new HashMap<>());
        Reflect.callIfAny(request, "setMsgBaseOffset", number(row.get(4))); // since 5.0.0
        Reflect.callIfAny(request, "setBatchSize", (short) number(row.get(5)));
        Reflect.call(queue, "putMessagePositionInfoWrapper", request);
    }

    private void show(Map<String, Object> step, Map<String, Object> answer) throws Exception {
        Object queue = queue(step);
        answer.put("maxPhyOffset", Reflect.call(queue, "getMaxPhysicOffset"));
        answer.put("min", Reflect.call(queue, "getMinOffsetInQueue"));
        answer.put("max", Reflect.call(queue, "getMaxOffsetInQueue"));
        answer.put("files", files(directory(step, type(step))));
        answer.put("extFiles", files(directory(step, "consumequeue_ext")));
    }

    private Object queue(Map<String, Object> step) throws Exception {
        String id = key(step);
        if (!queues.containsKey(id)) {
            Class<?> type = isBatch(step) ? Class.forName("org.apache.rocketmq.store.queue.BatchConsumeQueue")
                : ConsumeQueue.class;
            queues.put(id, Reflect.construct(type, "topic", Integer.parseInt(id), root.resolve(type(step)).toString(),
                (int) number(step.get("fileSize")), store));
        }
        return queues.get(id);
    }

    private static Map<String, String> files(Path directory) throws Exception {
        Map<String, String> files = new LinkedHashMap<>();
        if (Files.isDirectory(directory)) {
            try (Stream<Path> paths = Files.list(directory)) {
                for (Path path : paths.sorted().collect(Collectors.toList())) {
                    files.put(path.getFileName().toString(),
                        Base64.getEncoder().encodeToString(Files.readAllBytes(path)));
                }
            }
        }
        return files;
    }

    private Path directory(Map<String, Object> step, String type) {
        return root.resolve(type).resolve("topic").resolve(key(step));
    }

    private static String type(Map<String, Object> step) {
        return isBatch(step) ? "batchconsumequeue" : "consumequeue";
    }

    private static boolean isBatch(Map<String, Object> step) {
        return Boolean.TRUE.equals(step.get("batch"));
    }

    private static String key(Map<String, Object> step) {
        return String.valueOf(step.get("queue"));
    }

    private static long number(Object value) {
        return ((Number) value).longValue();
    }
}
