package org.rocketstore.interop;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Drives RocketMQ's own store classes for the interop tests: reads a command a line from stdin, its arguments
 * separated by tabs, and answers each with one line, {@code ok ...} or {@code error ...}.
 *
 * <pre>
 * put    DIR SLOTS ITEMS ROWS NAME          IndexFile.putKey for each row, rolling; files are named NAME, NAME + 1, ...
 * select FILE SLOTS ITEMS QUERIES OUT       IndexFile.selectPhyOffset
 * build  ROOT SLOTS ITEMS REQUESTS          IndexService.buildIndex, files in ROOT/index, checkpoint in ROOT
 * query  ROOT SLOTS ITEMS QUERIES OUT       IndexService.queryOffset
 * load   ROOT SLOTS ITEMS CHECKPOINT_MS     IndexService.load after a crash
 * write  ROOT OPTIONS MESSAGES OUT          DefaultMessageStore.putMessage into a new store
 * read   ROOT OPTIONS REQUESTS OUT          what DefaultMessageStore reads in ROOT, which is deleted then
 * parse  REQUESTS OUT                       CommitLog.checkMessageAndReturnSize, MessageDecoder.decode
 * text   REQUESTS OUT                       String of UTF-8, MessageDecoder.string2messageProperties
 * </pre>
 * What the files of rows, messages, requests and queries hold is said at the methods that read them.
 */
public final class Harness {
    private Harness() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever a library prints must not pass for an answer
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            answers.println(answer(line.split("\t", -1)));
        }
        System.exit(0); // stores that were never started leave threads behind
    }

    private static String answer(String[] command) {
        try {
            String[] args = Arrays.copyOfRange(command, 1, command.length);
            switch (command[0]) {
                case "put":
                    return "ok " + IndexFiles.put(args);
                case "select":
                    return "ok " + IndexFiles.select(args);
                case "build":
                    return "ok " + IndexServices.build(args);
                case "query":
                    return "ok " + IndexServices.query(args);
                case "load":
                    return "ok " + IndexServices.load(args);
                case "write":
                    return "ok " + StoreWriter.write(args);
                case "read":
                    return "ok " + StoreReader.read(args);
                case "parse":
                    return "ok " + Records.parse(args);
                case "text":
                    return "ok " + Records.text(args);
                default:
                    return "error unknown command " + command[0];
            }
        } catch (Exception | LinkageError e) {
            Throwable cause = e.getCause() == null ? e : e.getCause();
            return "error " + cause.toString().replaceAll("\\s+", " ") + " at " + cause.getStackTrace()[0];
        }
    }
}
