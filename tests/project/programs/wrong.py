"""Mistakes that type checkers must report: each line with a comment, and no other line."""

import rocketstore
from rocketstore import Message

with rocketstore.open("/data/store") as store:
    message = store.query_message("Orders", "k")[0]
    batch = message.nope  # wrong
    column = store.scan().head().nope  # wrong
    store.scan(on_corrupt="ignore")  # wrong
    store.query_message("Orders", "k", index_type="X")  # wrong
    store.get_offset_by_time("Orders", 5, boundary="middle")  # wrong
    store["Orders"].scan(topic="Orders")  # wrong
    number = store["Orders"].nope  # wrong
    message.body.encode()  # wrong
rocketstore.open("/data/store", "w")  # wrong
Message("Orders", 5)  # wrong
Message("Orders", b"", compress="gzip")  # wrong
