"""Three profiles of sizes of the files of a store. A test whose subject is a size states its own."""

from rocketstore.config import DEFAULT_SIZES

SMALL = {  # a hundred messages fit into one file of each kind
    "mapped_file_size_commit_log": 1 << 16,
    "mapped_file_size_consume_queue": 100 * 20,
    "mapper_file_size_batch_consume_queue": 100 * 46,
    "mapped_file_size_consume_queue_ext": 4096,
    "max_hash_slot_num": 97,
    "max_index_num": 400,
}
SEVERAL_FILES = {  # a few messages fill several files of each kind
    "mapped_file_size_commit_log": 4096,
    "mapped_file_size_consume_queue": 10 * 20,
    "mapper_file_size_batch_consume_queue": 5 * 46,
    "mapped_file_size_consume_queue_ext": 128,
    "max_hash_slot_num": 13,
    "max_index_num": 40,
}
ROCKETMQ = DEFAULT_SIZES  # RocketMQ's own
