"""What all tests share: Hypothesis does not mind a machine that is busy with something else."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy machine")
