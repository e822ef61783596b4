package org.rocketstore.interop;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.StoreCheckpoint;

/** The command that does to a store what a broker does at its next start and clean stop. */
final class StoreRecovery {
    private StoreRecovery() {
    }

    /**
     * Loads, starts and shuts down ROOT itself. Besides the options of {@link Stores} there is {@code start}: false
     * stops after the load, as a broker that is killed then. Answers with a JSON object: {@code loaded}, what load()
     * said; and if that is true {@code minOffset}, {@code maxOffset}, {@code confirmOffset}, {@code queues}, each with
     * {@code topic queueId min max maxPhysicOffset}, and {@code checkpoint}, its fields after the load.
     */
    static String recover(String[] args) throws Exception {
        Path root = Path.of(args[0]);
        Map<String, Object> options = Json.object(args[1]);
        DefaultMessageStore store = Stores.create(root, options);
        Map<String, Object> answer = Json.of("loaded", store.load());
        if (!(Boolean) answer.get("loaded")) {
            Stores.release(store);
            return Json.write(answer);
        }
        answer.putAll(state(store));
        if (!(Boolean) options.get("start")) {
            Stores.release(store);
            return Json.write(answer);
        }
        store.start();
        Stores.settle(store);
        Stores.shutdown(store);
        answer.put("abort", Files.exists(root.resolve("abort")));
        return Json.write(answer);
    }

    private static Map<String, Object> state(DefaultMessageStore store) throws Exception {
        List<Object> queues = new ArrayList<>();
        for (Object queue : StoreReader.queues(store)) {
            queues.add(Json.of("topic", Reflect.call(queue, "getTopic"), "queueId", Reflect.call(queue, "getQueueId"),
                "min", Reflect.call(queue, "getMinOffsetInQueue"), "max", Reflect.call(queue, "getMaxOffsetInQueue"),
                "maxPhysicOffset", Reflect.call(queue, "getMaxPhysicOffset")));
        }
        StoreCheckpoint checkpoint = store.getStoreCheckpoint();
        return Json.of("minOffset", store.getMinPhyOffset(), "maxOffset", store.getMaxPhyOffset(),
            "confirmOffset", Reflect.callIfAny(store, "getConfirmOffset"), "queues", queues,
            "checkpoint", Json.of("physicMsgTimestamp", checkpoint.getPhysicMsgTimestamp(),
                "logicsMsgTimestamp", checkpoint.getLogicsMsgTimestamp(),
                "indexMsgTimestamp", checkpoint.getIndexMsgTimestamp(),
                "masterFlushedOffset", Reflect.callIfAny(checkpoint, "getMasterFlushedOffset"),
                "confirmPhyOffset", Reflect.callIfAny(checkpoint, "getConfirmPhyOffset"),
                "logicsPhysicalOffset", Reflect.callIfAny(checkpoint, "getLogicsPhysicalOffset")));
    }
}
