"""Look up keys: UDFs that return physical offsets, a query that returns messages, and a cache of open stores."""
