"""What connectors have in common: settings with secrets, and records as rows of a table."""
