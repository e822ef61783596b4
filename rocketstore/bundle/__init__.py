"""Bundle collects what a bug report needs into one archive, without contents of messages and without credentials.

``bundle`` is the entry. ``summary_files`` describes the store in JSON, ``config_files`` gives the configuration without
credentials, ``damaged_bytes`` the bytes around damage. What is not known to be harmless is blanked: a byte is shown
only if it is a number in a sound structure, or a name that RocketMQ or the configuration defines.
"""
