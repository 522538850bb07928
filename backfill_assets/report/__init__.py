"""One answer to each question, and four ways to show it: terminal, JSON, Markdown, HTML."""
