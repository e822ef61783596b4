"""The file `checkpoint`."""

import struct


def checkpoint_bytes(
    physic_msg_timestamp=0,
    logics_msg_timestamp=0,
    index_msg_timestamp=0,
    master_flushed_offset=0,
    confirm_phy_offset=0,
    logics_physical_offset=0,
):
    """The 4,096 bytes of StoreCheckpoint."""
    fields = struct.pack(
        ">6q",
        physic_msg_timestamp,
        logics_msg_timestamp,
        index_msg_timestamp,
        master_flushed_offset,
        confirm_phy_offset,
        logics_physical_offset,
    )
    return fields.ljust(4096, b"\0")
