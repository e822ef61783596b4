package org.rocketstore.interop;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.DispatchRequest;
import org.apache.rocketmq.store.RunningFlags;
import org.apache.rocketmq.store.StoreCheckpoint;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.index.IndexFile;
import org.apache.rocketmq.store.index.IndexService;
import org.apache.rocketmq.store.index.QueryOffsetResult;
import sun.reflect.ReflectionFactory;

/** The commands on IndexService. */
final class IndexServices {
    private IndexServices() {
    }

    /**
     * Requests {@code topic uniqKey keys tags phyOffset storeTimestamp sysFlag}, after what ROOT/index holds already.
     * Answers the checkpoint's indexMsgTimestamp.
     */
    static String build(String[] args) throws Exception {
        DefaultMessageStore store = store(args);
        PacedIndexService service = new PacedIndexService(store);
        service.load(true);
        for (String[] request : Cells.read(args[3])) {
            Map<String, String> properties = new HashMap<>();
            if (Cells.text(request[3]) != null) {
                properties.put(MessageConst.PROPERTY_TAGS, Cells.text(request[3]));
            }
            service.buildIndex(new DispatchRequest(Cells.text(request[0]), 0, Long.parseLong(request[4]), 100, 0,
                Long.parseLong(request[5]), 0, Cells.text(request[2]), Cells.text(request[1]),
                Integer.parseInt(request[6]), 0, properties));
        }
        close(service);
        return String.valueOf(store.getStoreCheckpoint().getIndexMsgTimestamp());
    }

    /**
     * Queries {@code topic key maxNum begin end indexType}; writes a line {@code offsets lastUpdateTimestamp
     * lastUpdatePhyOffset} for each. Answers how many there were.
     */
    static String query(String[] args) throws Exception {
        IndexService service = new IndexService(store(args));
        service.load(true);
        List<String> lines = new ArrayList<>();
        for (String[] query : Cells.read(args[3])) {
            QueryOffsetResult result = queryOffset(service, query);
            lines.add(Cells.join(result.getPhyOffsets()) + "\t" + result.getIndexLastUpdateTimestamp() + "\t"
                + result.getIndexLastUpdatePhyoffset());
        }
        close(service);
        Files.write(Path.of(args[4]), lines);
        return String.valueOf(lines.size());
    }

    /** Loads as after a crash, with the checkpoint's indexMsgTimestamp set. Answers the names that are left. */
    static String load(String[] args) throws Exception {
        DefaultMessageStore store = store(args);
        store.getStoreCheckpoint().setIndexMsgTimestamp(Long.parseLong(args[3]));
        store.getStoreCheckpoint().flush();
        IndexService service = new IndexService(store);
        boolean loaded = service.load(false);
        close(service);
        if (!loaded) {
            throw new IllegalStateException("IndexService.load answered false");
        }
        return IndexFiles.names(Path.of(args[0], "index")).stream().map(p -> p.getFileName().toString())
            .collect(Collectors.joining(","));
    }

    private static QueryOffsetResult queryOffset(IndexService service, String[] query) throws Exception {
        String topic = Cells.text(query[0]);
        String key = Cells.text(query[1]);
        int maxNum = Integer.parseInt(query[2]);
        long begin = Long.parseLong(query[3]);
        long end = Long.parseLong(query[4]);
        if (query[5].equals("-")) {
            return service.queryOffset(topic, key, maxNum, begin, end);
        }
        Method typed = IndexService.class.getMethod("queryOffset", String.class, String.class, int.class, long.class,
            long.class, String.class); // since 5.4.0
        return (QueryOffsetResult) typed.invoke(service, topic, key, maxNum, begin, end, query[5]);
    }

    /**
     * A store without its constructor, which would open a database and start threads for every command: IndexService
     * asks it only for what is set here.
     */
    private static DefaultMessageStore store(String[] args) throws Exception {
        Path root = Path.of(args[0]);
        Files.createDirectories(root.resolve("index"));
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(root.toString());
        config.setMaxHashSlotNum(Integer.parseInt(args[1]));
        config.setMaxIndexNum(Integer.parseInt(args[2]));
        DefaultMessageStore store = (DefaultMessageStore) ReflectionFactory.getReflectionFactory()
            .newConstructorForSerialization(DefaultMessageStore.class, Object.class.getConstructor()).newInstance();
        set(store, "messageStoreConfig", config);
        set(store, "storeCheckpoint", new StoreCheckpoint(root.resolve("checkpoint").toString()));
        set(store, "runningFlags", new RunningFlags());
        set(store, "brokerConfig", new BrokerConfig()); // 5.0 to 5.3: the broker's name in the flushing thread's log
        return store;
    }

    private static void set(DefaultMessageStore store, String name, Object value) throws Exception {
        Field field = DefaultMessageStore.class.getDeclaredField(name);
        field.setAccessible(true);
        field.set(store, value);
    }

    private static void close(IndexService service) throws Exception {
        for (IndexFile file : files(service)) {
            IndexFiles.close(file);
        }
    }

    @SuppressWarnings("unchecked")
    private static List<IndexFile> files(IndexService service) {
        try {
            Field field = IndexService.class.getDeclaredField("indexFileList");
            field.setAccessible(true);
            return (List<IndexFile>) field.get(service);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /**
     * Waits for the threads that flush full index files. No shutdown of a store does, so one that comes late writes
     * into a mapping that is gone, and the JVM dies.
     */
    static void joinFlush() throws InterruptedException {
        Thread[] threads = new Thread[Thread.activeCount() + 8];
        int count = Thread.enumerate(threads);
        for (int i = 0; i < count; i++) {
            if (threads[i].getName().equals("FlushIndexFileThread")) {
                threads[i].join();
            }
        }
    }

    /**
     * Creates no two files in one millisecond, which would give them one name, and waits for the thread that flushes
     * the full one, so that the checkpoint is set in the order of the files.
     */
    private static final class PacedIndexService extends IndexService {
        PacedIndexService(DefaultMessageStore store) {
            super(store);
        }

        @Override
        public IndexFile getAndCreateLastIndexFile() {
            int before = files(this).size();
            String last = before == 0 ? "" : name(files(this).get(before - 1));
            while (UtilAll.timeMillisToHumanString(System.currentTimeMillis()).compareTo(last) <= 0) {
                Thread.onSpinWait();
            }
            IndexFile file = super.getAndCreateLastIndexFile();
            if (files(this).size() > before) {
                try {
                    joinFlush();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            }
            return file;
        }

        private static String name(IndexFile file) {
            return Path.of(file.getFileName()).getFileName().toString();
        }
    }
}
