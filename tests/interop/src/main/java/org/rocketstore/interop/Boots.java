package org.rocketstore.interop;

import java.util.Map;
import java.util.Properties;

import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.remoting.common.TlsMode;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.netty.TlsSystemConfig;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/** The command that starts a broker over a store and stops it again; it serves nobody. */
final class Boots {
    private Boots() {
    }

    /**
     * Does what BrokerStartup does, up to the network: BrokerController.initialize, and of start what has to do with
     * files. Arguments: ROOT, and a JSON object of properties of BrokerConfig and MessageStoreConfig. Answers with a
     * JSON object: {@code started}; where it is false {@code error}, what was thrown, or which method answered false.
     */
    static String boot(String[] args) {
        TlsSystemConfig.tlsMode = TlsMode.DISABLED; // a certificate takes seconds to make
        BrokerController controller = controller(args[0], Json.object(args[1]));
        try {
            if (!controller.initialize()) {
                return Json.write(Json.of("started", false, "error", "initialize answered false"));
            }
            controller.getMessageStore().start();
            if (controller.getTimerMessageStore() != null) {
                controller.getTimerMessageStore().start();
            }
            return Json.write(Json.of("started", true));
        } catch (Throwable e) { // with any of these BrokerStartup ends the process
            return Json.write(Json.of("started", false, "error", e.toString()));
        } finally {
            new Thread(() -> stop(controller)).start(); // which can take half a minute
        }
    }

    private static BrokerController controller(String root, Map<String, Object> given) {
        Properties properties = new Properties();
        given.forEach((name, value) -> properties.setProperty(name, String.valueOf(value)));
        MessageStoreConfig store = new MessageStoreConfig();
        BrokerConfig broker = new BrokerConfig();
        MixAll.properties2Object(properties, store);
        MixAll.properties2Object(properties, broker);
        store.setStorePathRootDir(root);
        store.setStorePathCommitLog(root + "/commitlog");
        store.setHaListenPort(0);
        return new BrokerController(broker, new NettyServerConfig(), new NettyClientConfig(), store);
    }

    /** What was never started may not be able to stop; its files are not looked at again. */
    private static void stop(BrokerController controller) {
        try {
            controller.shutdown();
        } catch (Throwable e) {
            System.err.println("shutdown: " + e);
        }
    }
}
