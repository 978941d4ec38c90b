"""The contents of a snapshot and its owner; `tidewheel.storage` keeps it in a folder or an object store.

A folder has `log/`, whose numbered entries name the folder's owners and snapshots (`entries`, `log`); `parts/`, the
blobs of snapshots; and `heartbeats/`, the signs of life of an owner.
"""
