"""A broker that is pointed at another's logs does not start, and says why."""

from ackproof.broker.log.disk import Directory, read_meta_properties, write_meta_properties
from tests.support.clusters.bundled import running_cluster
from tests.support.processes.process import until


def test_another_brokers_or_clusters_logs_are_refused(tmp_path):
    with running_cluster(tmp_path, brokers=1) as cluster:
        broker = cluster.brokers[1]
        ours = read_meta_properties(Directory(broker.logs))
        assert ours is not None
        assert (ours.broker_id, len(ours.cluster_id)) == (1, 22)
        broker.kill()
        for foreign, says in (
            (type(ours)(7, ours.cluster_id), "broker.id=7, but this is broker 1"),
            (type(ours)(1, "other"), f"cluster.id=other, but this cluster is {ours.cluster_id}"),
        ):
            write_meta_properties(Directory(broker.logs), foreign)
            broker.start()
            until("the broker ends", lambda: not broker.running)
            assert says in broker.log.read_text()
            assert "Traceback" not in broker.log.read_text()
        write_meta_properties(Directory(broker.logs), ours)
        broker.start()
        cluster.wait_until_complete()
