"""The durable log of exactly-once topics: the data that a publisher must not lose.

`segmented_log.Log` keeps records; `group_commit.GroupCommit` writes the records of many callers with one fdatasync. All
calls wait for the disk, so an event loop makes them on another thread. `GroupCommit.submit`, and `Log.read` of recent
records, do not wait.
"""
