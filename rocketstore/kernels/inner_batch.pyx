"""The messages in the body of an inner batch. Each becomes a record with fields of its own and those of the batch.

    0 size i32 | 4 magic i32 | 8 bodyCrc i32 | 12 flag i32 | 16 body length i32, body | properties length i16, properties

Magic and CRC are not used. Physical offset, size, CRC, times, hosts, topic and queue of a message are those of the record
of the batch. Source: MessageDecoder.decodeMessage.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

from rocketstore.kernels.csrc cimport rs_load_be32, rs_store_be32, rs_store_be64
from rocketstore.kernels.record cimport (
    COMPRESSED,
    FLAG,
    MAX_PROPERTIES,
    QUEUE_OFFSET,
    SYS_FLAG,
    Slice,
)

cdef enum:
    INNER_FLAG = 12
    INNER_BODY_LENGTH = 16
    INNER_HEAD = 20


cdef int64_t find_inner_end(const uint8_t *body, int64_t size, int64_t pos, Slice *content,
                            Slice *properties) noexcept nogil:
    """Find the body and the properties of the message at `pos`. Return where it ends; -1 if no message is there."""
    cdef int64_t length, end
    if size - pos < INNER_HEAD + 2:
        return -1
    length = <int32_t>rs_load_be32(body + pos + INNER_BODY_LENGTH)
    if length < 0 or length > size - pos - INNER_HEAD - 2:
        return -1
    content.data, content.size = body + pos + INNER_HEAD, <int32_t>length
    end = pos + INNER_HEAD + length + 2
    length = (<int64_t>body[end - 2]) << 8 | body[end - 1]
    if length > MAX_PROPERTIES or length > size - end:
        return -1
    properties.data, properties.size = body + end, <int32_t>length
    end += length
    return end if <int32_t>rs_load_be32(body + pos) == end - pos else -1


cdef int64_t count_inner_messages(const uint8_t *body, int64_t size) noexcept nogil:
    """Return the number of messages in the decompressed body of a batch; -1 if the body is not a row of messages."""
    cdef Slice content, properties
    cdef int64_t count = 0, pos = 0
    while pos < size:
        pos = find_inner_end(body, size, pos, &content, &properties)
        if pos < 0:
            return -1
        count += 1
    return count


cdef int64_t read_inner_message(const Record *batch, int64_t pos, int64_t queue_offset, uint8_t *head,
                                Record *message) noexcept nogil:
    """Make a record of the message at `pos` of a batch whose body has been checked. Return where the message ends.

    Parameters: batch: its body is decompressed. head: COPIED_HEAD bytes, which must exist as long as the message. The
    properties of the message are not searched yet.
    """
    cdef int64_t end
    message[0] = batch[0]
    memcpy(head, batch.data, <size_t>(batch.after_hosts + 12))
    message.data = head
    end = find_inner_end(batch.body.data, batch.body.size, pos, &message.body, &message.properties)
    message.sys_flag = batch.sys_flag & ~(COMPRESSED | INNER_BATCH | NEEDS_UNWRAP)
    rs_store_be32(head + FLAG, rs_load_be32(batch.body.data + pos + INNER_FLAG))
    rs_store_be32(head + SYS_FLAG, <uint32_t>message.sys_flag)
    rs_store_be64(head + QUEUE_OFFSET, <uint64_t>queue_offset)
    message.msg_base_offset, message.batch_size = queue_offset, 1
    return end
