package org.rocketstore.interop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * JSON as Python's json module writes it with ensure_ascii: Map, List, String, Long, Boolean and null. Any string can
 * travel, unpaired surrogates too, which no JSON library that all releases share promises.
 */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    static List<Map<String, Object>> lines(String path) throws IOException {
        List<Map<String, Object>> rows = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(path))) {
            rows.add(object(line));
        }
        return rows;
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> object(String text) {
        return (Map<String, Object>) new Json(text).value();
    }

    /** A map of names and values in turn. */
    static Map<String, Object> of(Object... pairs) {
        Map<String, Object> map = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            map.put((String) pairs[i], pairs[i + 1]);
        }
        return map;
    }

    private Object value() {
        switch (peek()) {
            case '{':
                return map();
            case '[':
                return list();
            case '"':
                return string();
            default:
                return word();
        }
    }

    private Map<String, Object> map() {
        Map<String, Object> map = new LinkedHashMap<>();
        for (at++; peek() != '}'; skip(',')) {
            String name = string();
            skip(':');
            map.put(name, value());
        }
        at++;
        return map;
    }

    private List<Object> list() {
        List<Object> list = new ArrayList<>();
        for (at++; peek() != ']'; skip(',')) {
            list.add(value());
        }
        at++;
        return list;
    }

    private String string() {
        StringBuilder out = new StringBuilder();
        for (at++; text.charAt(at) != '"'; at++) {
            if (text.charAt(at) != '\\') {
                out.append(text.charAt(at));
            } else if (text.charAt(++at) == 'u') {
                out.append((char) Integer.parseInt(text.substring(at + 1, at + 5), 16));
                at += 4;
            } else {
                int escape = "bfnrt".indexOf(text.charAt(at));
                out.append(escape < 0 ? text.charAt(at) : "\b\f\n\r\t".charAt(escape));
            }
        }
        at++;
        return out.toString();
    }

    private Object word() {
        int start = at;
        while (at < text.length() && ",]} ".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        String word = text.substring(start, at);
        switch (word) {
            case "null":
                return null;
            case "true":
            case "false":
                return word.equals("true");
            default:
                return Long.valueOf(word);
        }
    }

    private char peek() {
        while (text.charAt(at) == ' ') {
            at++;
        }
        return text.charAt(at);
    }

    private void skip(char sign) {
        if (peek() == sign) {
            at++;
            peek();
        }
    }

    static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(out, value);
        return out.toString();
    }

    private static void write(StringBuilder out, Object value) {
        if (value instanceof Map) {
            String comma = "{";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                out.append(comma);
                write(out, String.valueOf(entry.getKey()));
                write(out.append(':'), entry.getValue());
                comma = ",";
            }
            out.append(comma.equals("{") ? "{}" : "}");
        } else if (value instanceof List) {
            String comma = "[";
            for (Object item : (List<?>) value) {
                write(out.append(comma), item);
                comma = ",";
            }
            out.append(comma.equals("[") ? "[]" : "]");
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else {
            quote(out, value.toString());
        }
    }

    private static void quote(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
