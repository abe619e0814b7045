"""The connection to a Ray cluster: which nodes it has, and hosts started on them.

The only file that calls Ray. What Ray raises becomes `HostLost` (the host is gone, the work is not)
or `EnvironmentFault`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from kernelagent.domain.errors import EnvironmentFault, UsageError

Message = dict[str, Any]
Kind = Literal["cuda", "virtual"]
_DESCRIBE_S = 330.0


class HostLost(Exception):
    """The host's process, its node, or the way to it is gone."""


@dataclass(frozen=True)
class Node:
    """A machine of the cluster."""

    id: str
    name: str
    gpus: int
    cpus: int

    def devices(self, kind: Kind) -> int:
        """GPUs, or on `virtual` one for each CPU that the node offers to Ray."""
        return self.gpus if kind == "cuda" else self.cpus


@dataclass(frozen=True)
class Host:
    """A `DeviceHost` on a node."""

    node: Node
    actor: Any

    def describe(self) -> Message:
        """Its device; raises `HostLost`, also where nothing answers in time."""
        import ray

        with _ray_faults():
            reported: Message = ray.get(self.actor.describe.remote(), timeout=_DESCRIBE_S)
            return reported

    def run(self, key: str, settings: Message, parcel: Any, request: Message) -> Iterator[Message]:
        """As `DeviceHost.run`; `parcel` is what `Connection.put` made of it, or None."""
        import ray

        with _ray_faults():
            stream = self.actor.run.options(num_returns="streaming")
            for reference in stream.remote(key, settings, parcel, request):
                yield ray.get(reference)

    def forget(self, key: str) -> None:
        self.actor.forget.remote(key)

    def stop(self) -> None:
        import ray

        with contextlib.suppress(Exception):
            ray.kill(self.actor)


class Connection:
    """This process in a cluster; a context manager. Leaves the cluster running."""

    def __init__(self, address: str, host: type | None = None) -> None:
        """`host`: what runs on a node, if not `DeviceHost`.

        Raises `UsageError` without Ray, `EnvironmentFault` where no cluster answers.
        """
        self._host = host
        if importlib.util.find_spec("ray") is None:
            raise UsageError(
                "--ray needs Ray, the extra kernelagent[ray]: pip install -e '.[ray]' in a checkout, "
                "here and on each node"
            )
        if address.startswith("ray://"):
            raise UsageError(
                f"--ray {address}: Ray's client protocol does not carry progress. Run the command "
                f"on a machine of the cluster and write --ray auto, or HOST:PORT of its head"
            )
        # Nothing of a run leaves but what the user asked for.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        self._joined = not ray.is_initialized()
        if not self._joined:
            return
        try:
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                **_on_loopback(address),
            )
        except (ConnectionError, RuntimeError, ValueError, OSError, AssertionError) as error:
            raise EnvironmentFault(
                f"no Ray cluster answers at {address}: {_first_line(error)}. Start one with `ray "
                f"start --head`, join other machines with `ray start --address HEAD:6379`"
            ) from error

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        import ray

        if self._joined:
            ray.shutdown()

    def nodes(self) -> list[Node]:
        """Those alive now."""
        import ray

        return [
            Node(
                id=row["NodeID"],
                name=row.get("NodeName") or row["NodeManagerAddress"],
                gpus=int(row["Resources"].get("GPU", 0)),
                cpus=int(row["Resources"].get("CPU", 0)),
            )
            for row in ray.nodes()
            if row["Alive"]
        ]

    def start(self, node: Node, kind: Kind, target: str) -> Host:
        """A host with its own device on this very node; does not wait for it."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        from kernelagent.suite.ray.host import DeviceHost

        needs = {"num_gpus": 1, "num_cpus": 0} if kind == "cuda" else {"num_cpus": 1}
        # Ray shows a host one GPU only, so it is the first for everybody in it.
        device = "cuda:0" if kind == "cuda" else "virtual"
        placed = ray.remote(self._host or DeviceHost).options(
            **needs,
            max_restarts=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
        )
        with _ray_faults():
            return Host(node, placed.remote(device, target))

    def put(self, value: object) -> Any:
        """Kept in the cluster; what hosts are handed in its place."""
        import ray

        return ray.put(value)


def _on_loopback(address: str) -> dict[str, Any]:
    """A cluster on loopback addresses knows this machine by one of them; Ray would guess another."""
    host = address.rpartition(":")[0]
    return {"_node_ip_address": host} if host.startswith("127.") else {}


@contextlib.contextmanager
def _ray_faults() -> Iterator[None]:
    from ray import exceptions

    try:
        yield
    except exceptions.RayTaskError as error:
        raise EnvironmentFault(
            f"a node's host failed: {_first_line(error.cause or error)}. Is the same kernelagent "
            f"installed on every node?"
        ) from error
    except exceptions.RayError as error:
        raise HostLost(f"{type(error).__name__}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
