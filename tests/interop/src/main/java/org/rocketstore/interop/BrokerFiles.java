package org.rocketstore.interop;

import java.io.ByteArrayInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;

import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/** Properties files of brokers, as BrokerStartup reads them into a MessageStoreConfig. */
final class BrokerFiles {
    private BrokerFiles() {
    }

    /** Requests {@code data}; writes all fields of the MessageStoreConfig as text for each, or {@code error}. */
    static String read(String[] args) throws Exception {
        List<String> lines = new ArrayList<>();
        for (Map<String, Object> request : Json.lines(args[0])) {
            byte[] data = Base64.getDecoder().decode((String) request.get("data"));
            lines.add(Json.write(read(data)));
        }
        Files.write(Path.of(args[1]), lines);
        return String.valueOf(lines.size());
    }

    private static Map<String, Object> read(byte[] data) throws Exception {
        Properties properties = new Properties();
        try {
            properties.load(new ByteArrayInputStream(data));
        } catch (IllegalArgumentException e) {
            return Json.of("error", String.valueOf(e));
        }
        MessageStoreConfig config = new MessageStoreConfig();
        MixAll.properties2Object(properties, config);
        Map<String, Object> fields = new TreeMap<>();
        MixAll.object2Properties(config).forEach((name, value) -> fields.put((String) name, value));
        return Json.of("fields", fields);
    }
}
