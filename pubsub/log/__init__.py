"""The durable log of exactly-once topics.

`segmented_log.Log` keeps records; `group_commit.GroupCommit` writes records of many callers with one fdatasync. Calls
wait for the disk, so an event loop makes them on another thread. Only `GroupCommit.submit`, and `Log.read` of recent
records, are fast.
"""
