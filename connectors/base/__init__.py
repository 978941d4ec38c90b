"""What connectors have in common: settings with secrets, records as rows of a table, attempts at a call."""
