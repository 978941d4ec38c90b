"""The common parts of connectors: settings with secrets, records as rows of a table, repeated calls."""
