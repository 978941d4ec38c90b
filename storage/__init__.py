"""Folders and object stores, on which snapshots, logs of topics and files stand."""
