"""scan_polars: a store as a lazy frame of polars."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from rocketstore.config import StoreConfig
from rocketstore.dataset.dataset_reader import Conditions, DatasetReader
from rocketstore.disk.store_path import StorePath
from rocketstore.extras import import_extra
from rocketstore.kernels.column_names import Names
from rocketstore.keywords import suggests_keywords
from rocketstore.progress import Progress
from rocketstore.store.message_store import MessageStore
from rocketstore.store.overview.known_names import warn_conditions
from rocketstore.text_values import Time, Zone

if TYPE_CHECKING:
    import polars


LEAST_POLARS = 1, 35  # older releases lose filters that they cannot pass on


@suggests_keywords
def scan_polars(
    path: str | os.PathLike[str] | StorePath,
    *,
    columns: str | Iterable[str] | None = None,
    topic: str | Iterable[str] | None = None,
    tag: str | Iterable[str] | None = None,
    key: str | Iterable[str] | None = None,
    since: Time | None = None,
    until: Time | None = None,
    tz: Zone = "UTC",
    limit: int | None = None,
    on_corrupt: Literal["raise", "skip"] = "raise",
    charset: str = "utf-8",
    names: Names = "rocketmq",
    body_schema: Mapping[str, Any] | None = None,
    verify_crc: bool = True,
    containers: bool = False,
    progress: Progress = False,
    config: StoreConfig | None = None,
    leftovers: bool = False,
    tiered: bool = False,
    compacted: bool = False,
) -> polars.LazyFrame:
    """Return the messages of a store as a lazy frame of polars.

    A query reads only the columns that it needs. A filter on topic, tags, queueId, phyOffset, storeTimestamp, uniqKey
    or keys reads fewer messages; polars computes any other filter. A filter on topic and keys, or topic and uniqKey,
    uses the index. Each ``collect`` reads the messages that the store has then.

    Parameters: path, config, leftovers, tiered, compacted: as for ``rocketstore.open``. columns, on_corrupt, charset,
    names, verify_crc, containers, progress, topic, tag, key, since, until, tz, limit: as for ``MessageStore.dataset``.
    body_schema: types of polars by the names of fields, such as ``{"amount": polars.Int64}``: the column ``body_json``
    is then a struct of these fields. A field that a body lacks is null. A body that is no JSON of these types is null.
    Raises: ModuleNotFoundError without polars; ImportError if it is older than 1.35; as ``rocketstore.open``.

    Notes: A filter that uses the index finds the messages that the index holds. Items that are missing before, between
    or after the index files are noticed, and the log is scanned instead. The log is also scanned for topics with inner
    batches: the index does not have the keys of the messages in them. A gap inside one index file cannot be noticed:
    messageIndexEnable=false for a while leaves one. Only a scan finds the messages of a gap, and rolled back messages.
    Source: none.

    Examples:
    >>> import polars
    >>> frame = rocketstore.scan_polars("demo")
    >>> frame.filter(polars.col("topic") == "Orders").group_by("queueId").len().collect().rows()
    [(0, 100)]
    >>> frame.filter(polars.col("topic") == "Orders", polars.col("keys").list.contains("order-7")).collect().height
    1
    """
    version = import_extra("polars", "polars").__version__
    if tuple(map(int, version.split(".")[:2])) < LEAST_POLARS:
        raise ImportError(f"scan_polars needs polars 1.35 or newer, not {version}: pip install --upgrade polars")
    from rocketstore.dataset.polars_scan import lazy_frame

    conditions = Conditions.of(topic, tag, key, since, until, limit, tz)
    options = {"leftovers": leftovers, "tiered": tiered, "compacted": compacted}
    store = MessageStore.of_entry("scan_polars", path, config, **options)
    scanned: dict[str, Any] = {"on_corrupt": on_corrupt, "charset": charset, "progress": progress}
    store.commit_log.scan(**scanned)  # raises errors of these arguments
    warn_conditions(store, conditions.topics, {"tag": conditions.tags, "key": conditions.keys}, stacklevel=4)
    scanned |= {"verify_crc": verify_crc, "containers": containers}
    return lazy_frame(DatasetReader(store, conditions, **scanned), columns, names, body_schema)
