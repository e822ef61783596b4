"""``python -m rocketstore``."""

from rocketstore.cli import main

main()
