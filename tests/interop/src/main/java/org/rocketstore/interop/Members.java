package org.rocketstore.interop;

import io.openmessaging.storage.dledger.DLedgerConfig;
import io.openmessaging.storage.dledger.MemberState;
import io.openmessaging.storage.dledger.entry.DLedgerEntry;
import io.openmessaging.storage.dledger.store.file.DLedgerMmapFileStore;

/** The command that copies DLedger's log as a group does when a member was far behind. */
final class Members {
    private static final String LEADER = "leader";

    private Members() {
    }

    /**
     * Lets a new member n0 with its log in the root TO follow the member n0 of the root FROM, whose log begins with
     * entry INDEX as far as the new member hears. FILE_SIZE: of both logs. Answers where the new log begins.
     */
    static String follow(String[] args) throws Exception {
        int fileSize = Integer.parseInt(args[3]);
        DLedgerConfig[] configs = {config(args[0], fileSize), config(args[1], fileSize)};
        MemberState[] members = {new MemberState(configs[0]), new MemberState(configs[1])};
        long term = members[0].currTerm();
        members[1].setCurrTermForTest(term);
        members[1].changeToFollower(term, LEADER);
        DLedgerMmapFileStore from = new DLedgerMmapFileStore(configs[0], members[0]);
        DLedgerMmapFileStore to = new DLedgerMmapFileStore(configs[1], members[1]);
        from.startup();
        to.startup();
        long first = Long.parseLong(args[2]);
        DLedgerEntry entry = from.get(first);
        to.truncate(entry, term, LEADER);
        for (long index = first + 1; index <= from.getLedgerEndIndex(); index++) {
            to.appendAsFollower(from.get(index), term, LEADER);
        }
        to.updateCommittedIndex(term, from.getLedgerEndIndex());
        to.shutdown();
        from.shutdown();
        return String.valueOf(entry.getPos());
    }

    private static DLedgerConfig config(String root, int fileSize) {
        DLedgerConfig config = new DLedgerConfig();
        config.setGroup("interop");
        config.setSelfId("n0");
        config.setPeers("n0-127.0.0.1:1");
        config.setStoreBaseDir(root);
        config.setMappedFileSizeForEntryData(fileSize);
        return config;
    }
}
