"""Live ingestion: events of a topic or of the landing folder, published by the second.

Core types: ``Reading`` (a source appended to raw: ``TopicReading``, ``LandingReading``), ``LiveStream`` (its
micro-batches), ``Follower`` (tables that follow raw), ``StreamLease`` (status, and one stream a table).

Source positions are compare-and-swap: a second stream or a restart reads twice and publishes once. ``SourceUnreadable``
is raised if reading on would lose or mix up events, ``AnotherStreamRuns`` if the table is taken.
"""
