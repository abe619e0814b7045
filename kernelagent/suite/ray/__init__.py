"""Evaluations on other machines through Ray: problems travel, judge and runner work over there.

`Cluster` hands out devices, `RemoteJudge` is a judge for one problem on any of them, `DeviceHost`
is what Ray runs on the node. Only `connection` and `cluster` import Ray, where they use it.
"""

from __future__ import annotations
