"""The logger of the package. ``import rocketstore`` does not import it, since ``logging`` takes milliseconds."""

import logging

logger = logging.getLogger("rocketstore")
logger.addHandler(logging.NullHandler())  # else Python itself prints warnings
