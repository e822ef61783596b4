package org.rocketstore.interop;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import org.apache.rocketmq.store.index.IndexFile;

/** The commands on IndexFile itself. */
final class IndexFiles {
    private static final Method SELECT = selectMethod();

    private IndexFiles() {
    }

    /**
     * Rows {@code indexKey phyOffset storeTimestamp}. A full file is followed by a new one that begins with its end
     * values, as in IndexService; files that are in DIR already are gone on with. Answers how many rows were taken.
     */
    static String put(String[] args) throws Exception {
        Path directory = Files.createDirectories(Path.of(args[0]));
        int slots = Integer.parseInt(args[1]);
        int items = Integer.parseInt(args[2]);
        long name = Long.parseLong(args[4]);
        List<IndexFile> files = new ArrayList<>();
        for (Path path : names(directory)) {
            files.add(open(path, slots, items));
        }
        int taken = 0;
        for (String[] row : Cells.read(args[3])) {
            IndexFile last = files.isEmpty() ? null : files.get(files.size() - 1);
            if (last == null || last.isWriteFull()) {
                Path path = directory.resolve(Long.toString(name + files.size()));
                last = new IndexFile(path.toString(), slots, items, last == null ? 0 : last.getEndPhyOffset(),
                    last == null ? 0 : last.getEndTimestamp());
                files.add(last);
            }
            taken += last.putKey(Cells.text(row[0]), Long.parseLong(row[1]), Long.parseLong(row[2])) ? 1 : 0;
        }
        for (IndexFile file : files) {
            close(file);
        }
        return String.valueOf(taken);
    }

    /** Queries {@code indexKey maxNum begin end}; writes a line of offsets for each. Answers how many there were. */
    static String select(String[] args) throws Exception {
        IndexFile file = open(Path.of(args[0]), Integer.parseInt(args[1]), Integer.parseInt(args[2]));
        List<String> lines = new ArrayList<>();
        for (String[] query : Cells.read(args[3])) {
            List<Long> offsets = new ArrayList<>();
            List<Object> values = new ArrayList<>(List.of(offsets, Cells.text(query[0]), Integer.parseInt(query[1]),
                Long.parseLong(query[2]), Long.parseLong(query[3])));
            if (SELECT.getParameterCount() > values.size()) {
                values.add(false);
            }
            SELECT.invoke(file, values.toArray());
            lines.add(Cells.join(offsets));
        }
        close(file);
        Files.write(Path.of(args[4]), lines);
        return String.valueOf(lines.size());
    }

    static List<Path> names(Path directory) throws Exception {
        try (Stream<Path> paths = Files.list(directory)) {
            return paths.sorted().collect(Collectors.toList());
        }
    }

    private static IndexFile open(Path path, int slots, int items) throws Exception {
        IndexFile file = new IndexFile(path.toString(), slots, items, 0, 0);
        file.load();
        return file;
    }

    /** Writes the file out. Its mapping is left to the collector: 4.x has no way to free it and keep the file. */
    static void close(IndexFile file) throws Exception {
        file.flush();
        Field field = IndexFile.class.getDeclaredField("mappedFile");
        field.setAccessible(true);
        Object mapped = field.get(file);
        ((FileChannel) mapped.getClass().getMethod("getFileChannel").invoke(mapped)).close();
    }

    /** Up to 4.7 there is a last parameter {@code boolean lock}. */
    private static Method selectMethod() {
        for (Method method : IndexFile.class.getMethods()) {
            if (method.getName().equals("selectPhyOffset")) {
                return method;
            }
        }
        throw new IllegalStateException("IndexFile has no selectPhyOffset");
    }
}
