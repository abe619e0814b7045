from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from benchmarks.certificate_simulation import simulate, simulate_pooled
from benchmarks.timing_streams import STREAMS
from kernelagent.tools.cuda.certificate import Rules, certify

RECORDED = Path(__file__).parent / "recorded_cpu_softmax.json"


@pytest.mark.parametrize("stream", STREAMS)
def test_two_hundred_certificates_cover_the_truth_and_claim_nothing_false(stream):
    even = simulate(stream, 1.0, certificates=200, seed=1)
    # Three standard deviations below, and above, what 1,000 certificates have to keep.
    assert even.coverage >= 0.90
    assert even.faster <= 0.055
    assert even.launches <= 11


@pytest.mark.parametrize("stream", STREAMS)
def test_a_difference_well_above_the_interval_asked_for_is_found(stream):
    ahead = simulate(stream, 1.06, certificates=100, seed=2)
    assert ahead.faster >= 0.9
    behind = simulate(stream, 1 / 1.06, certificates=100, seed=3)
    assert behind.faster <= 0.01


@pytest.mark.long
@pytest.mark.parametrize("stream", STREAMS)
def test_a_thousand_certificates_keep_the_coverage_and_the_false_claims_promised(stream):
    even = simulate(stream, 1.0, certificates=1000, seed=4)
    assert even.coverage >= 0.94
    assert even.faster <= 0.025
    other = simulate(stream, 1.37, certificates=1000, seed=5)
    assert other.coverage >= 0.94


@pytest.mark.long
def test_the_simulation_finds_an_interval_that_forgets_what_processes_keep():
    assert simulate_pooled("process offsets", 1.0, certificates=1000, seed=6) < 0.93


def _recorded_coverage(certificates: int) -> tuple[float, float]:
    """Certificates on launches drawn from a real recording of equal sides, either side as A."""
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))["launches"]
    chance = Random(7)
    rules = Rules()
    covered = claimed = 0
    for _ in range(certificates):
        drawn = chance.sample(recorded, rules.most_launches)

        def launch(number, drawn=drawn):
            item, other = chance.sample(("eager", "candidate"), 2)
            return {
                "base": [
                    {"eager": block[item], "candidate": block[other]} for block in drawn[number]
                ]
            }

        result = certify(launch, rules, expired=lambda: False)
        covered += result.speedup.low <= 1 <= result.speedup.high
        claimed += result.faster
    return covered / certificates, claimed / certificates


def test_on_a_recorded_stream_of_equal_sides_the_certificate_claims_nothing():
    coverage, claimed = _recorded_coverage(200)
    assert coverage >= 0.90
    assert claimed <= 0.055


@pytest.mark.long
def test_on_a_recorded_stream_a_thousand_certificates_keep_what_is_promised():
    coverage, claimed = _recorded_coverage(1000)
    assert coverage >= 0.94
    assert claimed <= 0.025
