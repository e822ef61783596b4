"""The report page: one HTML file about a store. ``make_report`` is the entry.

``reading`` asks each part of the store, and keeps the error of a part that cannot be read. ``log_numbers`` scans the
log or a sample of it, and ``parts`` reads queues, index and expiry. ``verdict`` makes the begin of the page of these
answers, ``sections`` and ``structure`` make texts, tables and charts, and ``page`` the HTML.

Charts are inline SVG of a few templates in ``svg``. So the page has no script, needs no package beside rocketstore, and
prints as it is shown. ``style`` has all colours, for light and dark pages.
"""
