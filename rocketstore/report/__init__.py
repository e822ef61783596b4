"""The report page: one HTML file about a store. ``make_report`` is the entry.

``log_numbers`` scans the log or a sample of it, and ``parts`` reads queues, index and expiry. ``sections`` makes texts
and tables of these numbers, ``charts`` Vega-Lite specifications, and ``page`` the HTML. Each part catches its own
errors, so that a damaged store gets a page too. This room needs vl-convert-python, the extra "report".

Why Vega-Lite: its scripts in the page take 0.9 MB. Plotly's take 4.8 MB, and Plotly reads ``<b>`` and ``<a href>`` in
names as markup, but Vega shows every text literally. Vega's SVG has ARIA labels, and its colours may be CSS variables,
so that a dark scheme needs no script. vl-convert has these scripts in its wheel and needs no network.
"""
