"""The formats of files: how they are read and written."""
