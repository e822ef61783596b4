"""The tables of a broker, by the root of the store."""

from pathlib import Path

from rocketstore.survey.broker_config import open_tables
from rocketstore.survey.places import StorePlaces


def tables_of(root, config=None):
    return open_tables(StorePlaces.of(Path(root)), config)


def read_topics(root, config=None):
    return tables_of(root, config).read_topics()


def extend_topics(root, topics, queue_types=None, **options):
    return tables_of(root).extend_topics(topics, queue_types, **options)


def check(root):
    return tables_of(root).check()


def repair(root, dry_run=False):
    return tables_of(root).repair(dry_run)
