"""Several stores at once, of the brokers over which the messages of a topic are spread.

``BrokerStores`` asks each of its stores the same question, and joins the answers: each row gets the column ``broker``.
find_stores finds the stores, and names names them. A store that cannot answer hides no other store.
"""
