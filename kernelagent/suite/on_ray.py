"""A suite whose evaluations are done by a Ray cluster; suite, models and logs stay here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kernelagent.domain.configuration.config import RunConfig
from kernelagent.domain.serialization import from_data
from kernelagent.suite.log import ClusterChanged, ClusterJoined, SuiteFolder, SuiteLog, started
from kernelagent.suite.ray.cluster import Cluster
from kernelagent.suite.results import devices_of
from kernelagent.suite.run_suite import Watcher, conduct, run_here


def join(address: str, config: RunConfig, suite: SuiteFolder | None = None) -> Cluster:
    """The cluster, for a new suite or to go on with `suite` on devices of the make it has had.

    Raises `UsageError`, `EnvironmentFault`.
    """
    if suite is None:
        return Cluster(address, config.device, config.target)
    had = devices_of(suite)
    config = from_data(started(suite).config, RunConfig)
    return Cluster(address, config.device, config.target, like=had[0] if had else None)


def conduct_on(
    cluster: Cluster,
    address: str,
    folder: SuiteFolder,
    watcher: Watcher,
    *,
    jobs: int | None = None,
    total_usd: float | None = None,
    stop_asked: Callable[[], bool] = lambda: False,
) -> bool:
    """Like `conduct`; the cluster and its later changes are recorded in the suite's log."""

    def opening(log: SuiteLog) -> None:
        joined = cluster.joined
        log.publish(ClusterJoined(address, joined.device, joined.devices, joined.left_out))
        cluster.on_message(lambda message: log.publish(ClusterChanged(message)))

    run_one = partial(run_here, judges=cluster)
    return conduct(
        folder,
        watcher,
        jobs=jobs,
        total_usd=total_usd,
        stop_asked=stop_asked,
        run_one=run_one,
        opening=opening,
    )
