"""One module for each command, imported when it is called. What a command computes is elsewhere.

- Work: ``plan``, ``run``, ``diff``, ``approve``, ``rollback``, ``close``, ``reopen``.
- Look: ``status``, ``show``, ``history``, ``trace``, ``incident``, ``sql``, ``metrics``.
- Beside main: ``timeline``.
- What came in: ``raw``, ``stream``.
- Set up: ``init``, ``doctor``, ``dataset``, ``adopt``, ``maintain``, ``dev``, ``spark``, ``ui``, ``docs``.
"""
