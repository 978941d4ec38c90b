"""The storage of snapshots: a folder of this machine, S3, Google Cloud Storage or Azure.

A folder holds `log/`, whose numbered entries say who owns the folder and which snapshots there are (`entries`, `log`);
`parts/`, the blobs that snapshots consist of; and `heartbeats/`, by which an owner shows that its process lives.
`SnapshotFolder` opens a folder, and `Ownership` commits to it.
"""
