"""The statistics of a job about the topics that it publishes."""

import tidewheel as tw

DEADLINE_S = 20.0


def test_statistics_tell_lag_and_subscribers_of_each_partition() -> None:
    """One partition a worker; what was read does not lag any more."""
    flow = tw.Dataflow("numbers")
    flow.input("numbers").exchange(lambda n: n).publish("statistics, numbers").probe("sent")
    with tw.run(flow, workers=2, engine="local") as job, tw.subscribe("statistics, numbers") as topic:
        numbers = job.input("numbers")
        numbers.send([1, 2, 3, 4])
        numbers.advance_to(1)
        job.probe("sent").wait_until(1, timeout_s=DEADLINE_S)
        before = job.statistics()
        partitions = before.topics["statistics, numbers"]
        assert sum(one["records"] for one in partitions) == 4
        assert [one["subscribers"] for one in partitions] == [1, 1]
        assert all(one["lag_messages"] and one["lag_bytes"] for one in partitions)
        assert "statistics, numbers" in str(before)
        assert next(topic.epochs(timeout_s=DEADLINE_S)).time == 0
        after = job.statistics().topics["statistics, numbers"]
        assert [one["lag_messages"] for one in after] == [0, 0]
        numbers.close()
        job.wait(timeout_s=DEADLINE_S)
