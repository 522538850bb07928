"""The demo, and the development server."""
