"""Folders and object stores, for snapshots, logs of topics and files."""
