"""What this machine can enforce on a process, found by doing it in a process that ends at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from kernelagent.tools.sandbox import landlock, seccomp
from kernelagent.tools.sandbox import system_calls as kernel
from kernelagent.tools.sandbox.namespaces import Namespaces, enter

_USER_NAMESPACES = (
    "allow unprivileged user namespaces (sysctl user.max_user_namespaces above 0, "
    "kernel.apparmor_restrict_unprivileged_userns=0), or in a container give CAP_SYS_ADMIN"
)


@dataclass(frozen=True)
class Mechanisms:
    """What works here; `missing`: tier to one sentence of why not and how to get it."""

    landlock_abi: int = 0
    """0: not usable."""
    namespaces: Namespaces = field(default_factory=Namespaces)
    seccomp: bool = False
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def tiers(self) -> tuple[str, ...]:
        """Names of what works, for a report."""
        spaces = self.namespaces
        named = (
            ("landlock", self.landlock_abi > 0),
            ("signal scope", self.landlock_abi >= landlock.SIGNAL_SCOPE_ABI),
            ("pidns", spaces.pid),
            ("netns", spaces.net),
            ("ipcns", spaces.ipc),
            ("seccomp", self.seccomp),
            ("rlimits", True),
            ("watch", True),
        )
        return tuple(name for name, works in named if works)

    def without(self, tiers: Collection[str]) -> Mechanisms:
        """The same, but for these tiers, as on a machine that lacks them."""
        spaces = self.namespaces
        spaces = replace(
            spaces,
            pid=spaces.pid and "pidns" not in tiers,
            net=spaces.net and "netns" not in tiers,
            ipc=spaces.ipc and "ipcns" not in tiers,
        )
        version = 0 if "landlock" in tiers else self.landlock_abi
        if "signal scope" in tiers:
            version = min(version, landlock.SIGNAL_SCOPE_ABI - 1)
        return Mechanisms(
            version,
            spaces if spaces.pid or spaces.net or spaces.ipc else Namespaces(),
            self.seccomp and "seccomp" not in tiers,
            self.missing | dict.fromkeys(tiers, "switched off"),
        )

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Mechanisms:
        """From `dataclasses.asdict`."""
        return cls(**{**data, "namespaces": Namespaces(**data["namespaces"])})


def find() -> Mechanisms:
    """Try each mechanism in a fork; call it only in a process with one thread."""
    if sys.platform != "linux":
        return Mechanisms(missing={"linux": "the sandbox needs Linux; use a container or a VM"})
    missing: dict[str, str] = {}
    version = _landlock(missing)
    filtered = _seccomp(missing)
    return Mechanisms(version, _namespaces(missing), filtered, missing)


def _landlock(missing: dict[str, str]) -> int:
    version = landlock.abi()
    if version < landlock.OLDEST_ABI:
        missing["landlock"] = (
            f"files cannot be kept out of reach: Landlock is "
            f"{f'at version {version}' if version else 'absent or switched off'}; use kernel 5.19 "
            f"or newer with 'landlock' in the lsm= boot parameter"
        )
        return 0

    def attempt() -> None:
        kernel.forbid_new_privileges()
        landlock.restrict((), version, network=False)

    if why := _failure(attempt):
        missing["landlock"] = f"files cannot be kept out of reach: Landlock was refused ({why})"
        return 0
    if version < landlock.SIGNAL_SCOPE_ABI:
        missing["signal scope"] = "Landlock cannot confine signals before kernel 6.12"
    return version


def _seccomp(missing: dict[str, str]) -> bool:
    if not seccomp.supported():
        missing["seccomp"] = f"the system call filter does not know {kernel.MACHINE}"
        return False

    def attempt() -> None:
        kernel.forbid_new_privileges()
        seccomp.restrict(network=False, memory_files=False)

    if why := _failure(attempt):
        missing["seccomp"] = (
            f"system calls cannot be filtered ({why}); use a kernel with CONFIG_SECCOMP_FILTER"
        )
    return not why


def _namespaces(missing: dict[str, str]) -> Namespaces:
    own = Namespaces(user=not _makes("ipc"))
    meaning = {
        "pid": "other processes stay visible, and processes that a candidate leaves behind are searched for and killed",
        "net": "the network is closed by the system call filter alone",
        "ipc": "System V shared memory is not separate",
    }
    for name, without in meaning.items():
        trial = replace(own, **{name: True})
        if why := _failure(lambda trial=trial: _enter_and_leave(trial)):  # type: ignore[misc]
            missing[f"{name}ns"] = f"{without} ({why}); {_USER_NAMESPACES}"
        else:
            own = trial
    return own if own.pid or own.net or own.ipc else Namespaces()


def _makes(name: str) -> bool:
    return _failure(lambda: _enter_and_leave(Namespaces(**{name: True}))) is None


def _enter_and_leave(namespaces: Namespaces) -> None:
    first = enter(namespaces)
    if first is not None:
        os.kill(first, signal.SIGKILL)
        os.waitpid(first, 0)


def _failure(attempt: Callable[[], None]) -> str | None:
    """Why `attempt` fails in a process of its own, None when it works."""
    listen, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(listen)
        try:
            attempt()
            os.write(tell, b"works")
        except OSError as error:
            os.write(tell, (error.strerror or str(error)).encode())
        finally:
            os._exit(0)
    os.close(tell)
    with os.fdopen(listen, "rb") as line:
        answer = line.read().decode(errors="replace")
    os.waitpid(pid, 0)
    return None if answer == "works" else answer or "the trial process died"
