"""Find the tiered storage of a store."""

from __future__ import annotations

from rocketstore.config import StoreConfig
from rocketstore.disk.storage import to_path
from rocketstore.java_text import parse_int
from rocketstore.state.tier_metadata import find_tier_metadata
from rocketstore.survey.places import AnyPlaces
from rocketstore.tier.open_index import SLOTS_NAME
from rocketstore.tier.places import TierPlaces, find_tier


def find_index_slots(config: StoreConfig) -> int | None:
    """Return how many slots the broker's properties file gives an index file of the tier; None if it does not."""
    return parse_int(config.other.get(SLOTS_NAME, "").strip())


def open_tier(places: AnyPlaces, config: StoreConfig) -> TierPlaces:
    """Find where the broker of a store has its files in tiered storage.

    The broker's properties file names cluster and broker. Without it, the metadata of the store names the broker.
    Raises: ValueError if no path is known; FileNotFoundError; StoreError if the broker cannot be told.
    """
    path = (config.tiered_store_file_path or "").strip()
    if not path:
        text = "pass tiered_store_file_path in the configuration (--tier PATH)"
        raise ValueError(f"{places.root}: the directory of tiered storage is not known: {text}")
    named = config.other.get("brokerName", "").strip()
    brokers = [named] if named else find_tier_metadata(places.tiered_metadata).brokers
    return find_tier(to_path(path), config.other.get("brokerClusterName", "").strip() or None, brokers)
