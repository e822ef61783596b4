"""Bits of the field sysFlag of a record. Source: MessageSysFlag."""

TRANSACTION_PREPARED = 0x4
TRANSACTION_COMMIT = 0x8
TRANSACTION_ROLLBACK = 0xC
TRANSACTION_TYPE = 0xC  # the bits of all three; a message without a transaction has none of them
NEEDS_UNWRAP = 0x40
INNER_BATCH = 0x80
