"""The devices of a Ray cluster, handed out one evaluation at a time.

All of a suite's verdicts hold for one kind of device and one set of versions: the first that is
found (the suite's earlier one, when it goes on). Nodes with others are left out, and named.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Condition

import kernelagent
from kernelagent.domain.configuration.judge_settings import JudgeSettings
from kernelagent.domain.errors import EnvironmentFault, UsageError
from kernelagent.domain.evaluation import DeviceFacts
from kernelagent.domain.serialization import from_data
from kernelagent.loop.queries.exclusive_gpu import Say
from kernelagent.suite.ray.connection import Connection, Host, HostLost, Kind, Node
from kernelagent.suite.ray.remote import RemoteJudge
from kernelagent.tools.closing import Closing

_LOOK_AGAIN_S = 2.0
_NOBODY_LEFT_S = 120.0
_MOST_STRIKES = 3


@dataclass
class Device:
    """A device of the cluster with the host that works on it."""

    host: Host
    facts: DeviceFacts
    pid: int
    open: set[str] = field(default_factory=set)
    """Problems whose judge runs there."""
    busy: bool = False
    strikes: int = 0
    """Evaluations in a row that it could not carry out."""

    @property
    def name(self) -> str:
        return f"{self.host.node.name} ({self.facts.name})"


@dataclass(frozen=True)
class Joined:
    """What a suite has to work with."""

    device: DeviceFacts
    devices: int
    left_out: tuple[str, ...]
    """Nodes, each with why."""


class Cluster(Closing):
    """A context manager; thread-safe."""

    def __init__(
        self,
        address: str,
        device: str,
        target: str,
        *,
        like: DeviceFacts | None = None,
        patience_s: float = _NOBODY_LEFT_S,
        host: type | None = None,
    ) -> None:
        """Connect and look at each node; raises `UsageError`, `EnvironmentFault`.

        `like`: only devices of this make, by these versions. `patience_s`: how long a cluster
        without any device may stay so. `host`: what evaluates on a node, if not `DeviceHost`.
        """
        if device.startswith("cuda:"):
            raise UsageError(
                f"--device {device}: with --ray write cuda; every node's GPUs are used"
            )
        self._target = target
        self._say: Callable[[str], None] = lambda _: None
        self._patience_s = patience_s
        self._changed = Condition()
        self.devices: list[Device] = []
        self._room: dict[str, int] = {}
        self._nodes: dict[str, Node] = {}
        self._left_out: dict[str, str] = {}
        self._strikes: dict[str, int] = {}
        self._looked_s = self._manned_s = time.monotonic()
        self._connection = Connection(address, host)
        try:
            self._kind = _kind(device, self._connection.nodes())
            self._make = self._choose(like)
        except BaseException:
            self.close()
            raise

    @property
    def joined(self) -> Joined:
        with self._changed:
            devices = len(self.devices) + sum(self._room.values())
            left_out = tuple(f"{self._nodes[n].name}: {why}" for n, why in self._left_out.items())
        return Joined(self._make, devices, left_out)

    here = False
    """Nothing is timed on this machine's GPU by this process."""

    def on_message(self, say: Callable[[str], None]) -> None:
        """From now on `say` is told, from any thread, of nodes that are left out or used no more."""
        self._say = say

    def open(self, settings: JudgeSettings, say: Say) -> RemoteJudge:
        """A judge for one problem; raises what a judge on this machine would."""
        return RemoteJudge(self, settings, say)

    def put(self, value: object) -> object:
        return self._connection.put(value)

    def take(self, key: str, avoid: Sequence[Device] = ()) -> Device:
        """A free device, best one where `key` is open; waits for one.

        Devices in `avoid` are the last choice. Raises `EnvironmentFault` when none is left.
        """
        while True:
            with self._changed:
                result = self._free(key, avoid)
                if result is not None:
                    result.busy = True
                    return result
                node = self._with_room()
            if node is not None:
                self._grow(node)
                continue
            with self._changed:
                result = self._free(key, ())
                if result is not None and not any(d not in avoid for d in self.devices):
                    result.busy = True
                    return result
                self._refuse_to_wait_for_nobody()
                self._changed.wait(_LOOK_AGAIN_S)
            self._rescan()

    def give_back(self, device: Device, *, worked: bool) -> None:
        """After an evaluation; a device that fails again and again is not handed out any more."""
        with self._changed:
            device.busy = False
            device.strikes = 0 if worked else device.strikes + 1
            useless = device.strikes >= _MOST_STRIKES and len(self.devices) > 1
            if useless and device in self.devices:
                self.devices.remove(device)
            self._changed.notify_all()
        if useless:
            device.host.stop()
            self._say(f"{device.name} failed {device.strikes} times in a row and is used no more")

    def lost(self, device: Device) -> None:
        """Its host is gone; another may be started on the same node, where that is alive."""
        with self._changed:
            if device in self.devices:
                self.devices.remove(device)
                if device.host.node.id in self._room:
                    self._room[device.host.node.id] += 1
            self._changed.notify_all()
        device.host.stop()

    def close(self) -> None:
        with self._changed:
            devices, self.devices = self.devices, []
        for device in devices:
            device.host.stop()
        self._connection.__exit__()

    def _free(self, key: str, avoid: Sequence[Device]) -> Device | None:
        free = [d for d in self.devices if not d.busy and d not in avoid]
        return next((d for d in free if key in d.open), free[0] if free else None)

    def _with_room(self) -> Node | None:
        for node, room in self._room.items():
            if room > 0:
                self._room[node] -= 1
                return self._nodes[node]
        return None

    def _refuse_to_wait_for_nobody(self) -> None:
        if self.devices:
            self._manned_s = time.monotonic()
        elif time.monotonic() - self._manned_s > self._patience_s:
            raise EnvironmentFault(
                f"no device of the Ray cluster has been left for {self._patience_s:.0f} s. Add a "
                f"node (`ray start --address HEAD:6379`), then go on with --resume"
            )

    def _rescan(self) -> None:
        """Adds devices of nodes that joined the cluster and removes those of dead nodes."""
        with self._changed:
            if time.monotonic() - self._looked_s < _LOOK_AGAIN_S:
                return
            self._looked_s = time.monotonic()
        alive = {node.id: node for node in self._connection.nodes()}
        with self._changed:
            for node in alive.values():
                if node.id not in self._nodes and node.devices(self._kind):
                    self._nodes[node.id] = node
                    self._room[node.id] = node.devices(self._kind)
            for gone in self._room.keys() - alive.keys():
                del self._room[gone]

    def _grow(self, node: Node) -> None:
        host = self._connection.start(node, self._kind, self._target)
        result: Device | str
        try:
            result = _described(host)
        except HostLost as error:
            host.stop()
            self._strike(node, str(error))
            return
        except EnvironmentFault as error:
            result = str(error)
        why = result if isinstance(result, str) else _differs(result.facts, self._make)
        with self._changed:
            if why is None and isinstance(result, Device):
                self._strikes.pop(node.id, None)
                self.devices.append(result)
                self._changed.notify_all()
                return
            self._left_out[node.id] = str(why)
            self._room.pop(node.id, None)
        host.stop()
        self._say(f"node {node.name} is left out: {why}")

    def _strike(self, node: Node, why: str) -> None:
        with self._changed:
            self._strikes[node.id] = self._strikes.get(node.id, 0) + 1
            if self._strikes[node.id] < _MOST_STRIKES:
                if node.id in self._room:
                    self._room[node.id] += 1
                self._changed.wait(_LOOK_AGAIN_S)
                return
            self._room.pop(node.id, None)
        self._say(f"node {node.name} is used no more: {why}")

    def _choose(self, like: DeviceFacts | None) -> DeviceFacts:
        """Look at one device of each node; the make with the most devices is the suite's."""
        nodes = [n for n in self._connection.nodes() if n.devices(self._kind)]
        self._nodes = {node.id: node for node in nodes}
        if not nodes:
            word = "GPU" if self._kind == "cuda" else "CPU"
            raise EnvironmentFault(f"no node of the Ray cluster offers a {word}; see `ray status`")
        with ThreadPoolExecutor(len(nodes)) as pool:
            result = list(pool.map(self._look_at, nodes))
        devices = [item for item in result if isinstance(item, Device)]
        weights: dict[DeviceFacts, int] = {}
        for device in devices:
            room = device.host.node.devices(self._kind)
            weights[device.facts] = weights.get(device.facts, 0) + room
        make = like or max(weights, key=lambda m: (weights[m], str(m)), default=None)
        for node, item in zip(nodes, result, strict=True):
            why = item if isinstance(item, str) else _differs(item.facts, make)
            if why is None and isinstance(item, Device):
                self.devices.append(item)
                self._room[node.id] = node.devices(self._kind) - 1
                continue
            self._left_out[node.id] = str(why)
            if isinstance(item, Device):
                item.host.stop()
        if make is None or not self.devices:
            reported = "; ".join(
                f"{self._nodes[n].name}: {why}" for n, why in self._left_out.items()
            )
            raise EnvironmentFault(f"no node of the Ray cluster can be used: {reported}")
        return make

    def _look_at(self, node: Node) -> Device | str:
        host = self._connection.start(node, self._kind, self._target)
        result: Device | str
        try:
            result = _described(host)
        except (HostLost, EnvironmentFault) as error:
            result = str(error)
        if isinstance(result, str):
            host.stop()
        return result


def _described(host: Host) -> Device | str:
    """The device, or why it cannot be used; raises `HostLost`."""
    reported = host.describe()
    if reported["kernelagent"] != kernelagent.__version__:
        return (
            f"it has kernelagent {reported['kernelagent']}, this machine {kernelagent.__version__}"
        )
    if "fault" in reported:
        return str(reported["fault"])
    return Device(host, from_data(reported["device"], DeviceFacts), int(reported["pid"]))


def _kind(asked: str, nodes: Sequence[Node]) -> Kind:
    if asked == "virtual" or (asked == "auto" and not any(node.gpus for node in nodes)):
        return "virtual"
    return "cuda"


def _differs(facts: DeviceFacts, make: DeviceFacts | None) -> str | None:
    """What is not the same; timings of the two must not stand in one table."""
    if make is None or facts == make:
        return None
    names = ("kind", "name", "target", "torch", "triton", "driver", "multiprocessors")
    reported = [
        f"{name} {getattr(facts, name)}, not {getattr(make, name)}"
        for name in names
        if getattr(facts, name) != getattr(make, name)
    ]
    return ", ".join(reported) or "its limits are not those of the others"
