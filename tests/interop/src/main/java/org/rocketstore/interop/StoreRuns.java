package org.rocketstore.interop;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;

import org.apache.rocketmq.store.DefaultMessageStore;

/**
 * The commands that keep stores running between them, so that a test can copy or damage the files of a store that runs,
 * and can start a store several times. A store is named by its root.
 */
final class StoreRuns {
    private static final Map<Path, DefaultMessageStore> RUNNING = new HashMap<>();

    private StoreRuns() {
    }

    /**
     * Loads and starts the store in ROOT with the options of {@link Stores}. Answers {@code maxOffset}, where the log
     * ends after the load, and {@code confirmOffset}.
     */
    static String start(String[] args) throws Exception {
        Path root = Path.of(args[0]);
        DefaultMessageStore store = Stores.create(root, Json.object(args[1]));
        if (!store.load()) {
            Stores.release(store);
            throw new IllegalStateException("DefaultMessageStore.load answered false");
        }
        Map<String, Object> answer = Json.of("maxOffset", store.getMaxPhyOffset(),
            "confirmOffset", Reflect.callIfAny(store, "getConfirmOffset"));
        store.start();
        Stores.waitUntilItLeads(store);
        RUNNING.put(root, store);
        return Json.write(answer);
    }

    /** Puts messages, as {@link StoreWriter} takes them, and waits until queues and index have them. */
    static String put(String[] args) throws Exception {
        List<String> results = StoreWriter.putAll(RUNNING.get(Path.of(args[0])), Json.lines(args[1]));
        Files.write(Path.of(args[2]), results);
        return String.valueOf(results.size());
    }

    /** Answers requests, as {@link StoreReader} takes them. */
    static String ask(String[] args) throws Exception {
        List<String> answers = StoreReader.answers(RUNNING.get(Path.of(args[0])), Json.lines(args[1]));
        Files.write(Path.of(args[2]), answers);
        return String.valueOf(answers.size());
    }

    /** Cuts the log at an offset while the store runs, as a replica does; from 5.0 on. Answers whether it did. */
    static String truncate(String[] args) throws Exception {
        DefaultMessageStore store = RUNNING.get(Path.of(args[0]));
        Stores.settle(store);
        return String.valueOf(Reflect.call(store, "truncateFiles", Long.parseLong(args[1])));
    }

    /** Shuts stores down, all at the same time. Answers where their logs ended, separated by commas. */
    static String stop(String[] roots) throws Exception {
        List<Long> ends = new ArrayList<>();
        List<Future<Void>> stops = new ArrayList<>();
        ExecutorService threads = Executors.newFixedThreadPool(roots.length);
        for (String root : roots) {
            DefaultMessageStore store = RUNNING.remove(Path.of(root));
            Stores.settle(store);
            ends.add(store.getMaxPhyOffset());
            stops.add(threads.submit(() -> {
                Stores.shutdown(store);
                return null;
            }));
        }
        threads.shutdown();
        for (Future<Void> stop : stops) {
            stop.get();
        }
        return ends.stream().map(String::valueOf).collect(Collectors.joining(","));
    }
}
