"""The storage of snapshots: a folder of this machine, S3, Google Cloud Storage or Azure.

A folder has `log/`, whose numbered entries name its owners and snapshots (`entries`, `log`); `parts/`, the blobs of
snapshots; and `heartbeats/`, the signs of life of an owner.
"""
