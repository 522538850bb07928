"""One answer to each question, and four ways to show it: terminal, JSON, Markdown, HTML.

``Answer`` is made of typed parts (``Fact``, ``Line``, ``Grid``, ``Chart``, ``Code``); only renderers know how it looks.
"""
