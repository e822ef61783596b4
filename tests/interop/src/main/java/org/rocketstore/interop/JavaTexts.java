package org.rocketstore.interop;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

import org.apache.commons.lang3.StringUtils;

/** How Java reads numbers and blanks. */
final class JavaTexts {
    private JavaTexts() {
    }

    /** For each UTF-16 unit: its digit, "b" if it is blank, or "-". */
    static String chars() {
        StringBuilder found = new StringBuilder();
        for (int unit = 0; unit <= Character.MAX_VALUE; unit++) {
            String text = String.valueOf((char) unit);
            Long number = parse(text);
            found.append(number != null ? String.valueOf(number) : StringUtils.isBlank(text) ? "b" : "-");
        }
        return found.toString();
    }

    /** Texts, one a line; writes Long.parseLong of each, or "-". */
    static String longs(String[] args) throws Exception {
        List<String> lines = new ArrayList<>();
        for (String[] row : Cells.read(args[0])) {
            Long number = parse(Cells.text(row[0]));
            lines.add(number == null ? "-" : String.valueOf(number));
        }
        Files.write(Path.of(args[1]), lines);
        return String.valueOf(lines.size());
    }

    private static Long parse(String text) {
        try {
            return Long.parseLong(text);
        } catch (NumberFormatException e) {
            return null;
        }
    }
}
