"""The development server, and the processes and the folder that the demo has as well."""
