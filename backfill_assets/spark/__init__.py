"""The engine: sessions, servers, JARs and Java."""
