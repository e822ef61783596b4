"""The commands that mend a store: ``recover``, ``rebuild`` and ``salvage``."""
