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
 * recover ROOT OPTIONS                      what the next start and stop of a broker do to ROOT itself
 * parse  REQUESTS OUT                       CommitLog.checkMessageAndReturnSize, MessageDecoder.decode
 * text   REQUESTS OUT                       String of UTF-8, MessageDecoder.string2messageProperties
 * conf   REQUESTS OUT                      MixAll.properties2Object into a MessageStoreConfig
 * run-start    ROOT OPTIONS           starts a store that runs until run-stop
 * run-put      ROOT MESSAGES OUT      DefaultMessageStore.putMessage into a running store
 * run-ask      ROOT REQUESTS OUT      what a running DefaultMessageStore reads
 * run-truncate ROOT OFFSET            DefaultMessageStore.truncateFiles of a running store
 * run-stop     ROOT ...               shuts running stores down
 * follow       FROM TO INDEX FILE_SIZE      a member of DLedger begins its log anew with an entry of another member
 * queues ROOT OPTIONS STEPS OUT             ConsumeQueue, BatchConsumeQueue: put, recover, cut; ROOT is deleted then
 * </pre>
 * What the files of rows, messages, requests and queries hold is said at the methods that read them.
 */
public final class Harness {
    private Harness() {
    }

    public static void main(String[] args) throws Exception {
        serve(Harness::run);
    }

    /** What a command does with its arguments; null if it is unknown. */
    interface Commands {
        Object run(String command, String[] args) throws Exception;
    }

    static void serve(Commands commands) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever a library prints must not pass for an answer
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(answer(commands, line.split("\t", -1)));
        }
        System.exit(0); // stores that were never started leave threads behind
    }

    private static String answer(Commands commands, String[] line) {
        try {
            Object answer = commands.run(line[0], Arrays.copyOfRange(line, 1, line.length));
            return answer == null ? "error unknown command " + line[0] : "ok " + answer;
        } catch (Exception | LinkageError e) {
            Throwable cause = e.getCause() == null ? e : e.getCause();
            return "error " + cause.toString().replaceAll("\\s+", " ") + " at " + cause.getStackTrace()[0];
        }
    }

    private static Object run(String command, String[] args) throws Exception {
        switch (command) {
            case "put":
                return IndexFiles.put(args);
            case "select":
                return IndexFiles.select(args);
            case "build":
                return IndexServices.build(args);
            case "query":
                return IndexServices.query(args);
            case "load":
                return IndexServices.load(args);
            case "write":
                return StoreWriter.write(args);
            case "read":
                return StoreReader.read(args);
            case "recover":
                return StoreRecovery.recover(args);
            case "run-start":
                return StoreRuns.start(args);
            case "run-put":
                return StoreRuns.put(args);
            case "run-ask":
                return StoreRuns.ask(args);
            case "run-truncate":
                return StoreRuns.truncate(args);
            case "run-stop":
                return StoreRuns.stop(args);
            case "follow":
                return Members.follow(args);
            case "parse":
                return Records.parse(args);
            case "text":
                return Records.text(args);
            case "chars":
                return JavaTexts.chars();
            case "longs":
                return JavaTexts.longs(args);
            case "conf":
                return BrokerFiles.read(args);
            case "queues":
                return ConsumeQueues.run(args);
            default:
                return null;
        }
    }
}
