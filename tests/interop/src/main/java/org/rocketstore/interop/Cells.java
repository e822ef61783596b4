package org.rocketstore.interop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/** The text files that go between Python and Java: cells separated by tabs. */
final class Cells {
    private Cells() {
    }

    static List<String[]> read(String path) throws IOException {
        List<String[]> rows = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(path))) {
            rows.add(line.split("\t", -1));
        }
        return rows;
    }

    /** Four hex digits for each UTF-16 unit, so that any string can travel, unpaired surrogates too; "-" is null. */
    static String text(String cell) {
        if (cell.equals("-")) {
            return null;
        }
        StringBuilder text = new StringBuilder();
        for (int at = 0; at < cell.length(); at += 4) {
            text.append((char) Integer.parseInt(cell.substring(at, at + 4), 16));
        }
        return text.toString();
    }

    static String join(List<Long> numbers) {
        return numbers.stream().map(String::valueOf).collect(Collectors.joining(","));
    }
}
