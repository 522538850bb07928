"""Live ingestion: events of a topic or of the landing folder, published by the second.

Source positions are compare-and-swap: a second stream or a restart reads twice and publishes once. ``SourceUnreadable``
is raised if reading on would lose or mix up events, ``AnotherStreamRuns`` if the table is taken.

How does a stream run?

- ``run``: the way in: lease, reading, what follows.
- ``live``: the loop of raw, micro-batch by micro-batch.
- ``gained``: what raw hands over. ``follow_loop``: the loop of the facts.
- ``facts``: what one following does. ``follower``: grows the days that gained rows.
- ``lease``: status, and one stream a table.
- ``restart``: whether and when again.
- ``throttle``: how fast history is read.

What does it read?

- ``batches``: ``Reading``, a source appended to raw.
- ``topic``: offsets. ``several_topics``: at once. ``landed``: the landing folder.
- ``sources``: where to start, what is new or lost.
- ``broker``: Kafka, by Spark and by its client.
- ``events``: raw rows of events, odd ones alone.

How are events encoded?

- ``avro_events``, ``protobuf_events``, ``registry_events``: what a dataset declares.
- ``decoded_events``, ``event_texts``: decoded in workers, to canonical texts.

What is told?

- ``reporter``, ``delays``: status; how late events are, in raw and in the facts.
- ``dead_letters``: rejected events.

>>> from backfill_assets.stream.restart import wait_after
>>> [wait_after(early=count).seconds for count in (0, 1, 2, 99)]
[0, 15, 30, 600]
"""
