"""Checks a run of `bench pts` (JSON on stdin) against SNIA PTS 2.0.2, without Trimtab's code."""

import json
import math
import sys

run = json.load(sys.stdin)
metrics = {metric["name"]: metric["samples"] for metric in run["metrics"]}
series = {one["name"]: one for one in run["series"]}
capacity = int(run["settings"]["capacity"])
TRACKED = "read-0.4KiB.iops"
rates, written = series[TRACKED]["y"], series[TRACKED]["x"]


def fit(values):
    """Line a + b x through values at x = 1, 2, … by the normal equations."""
    n = len(values)
    sx, sxx = n * (n + 1) / 2, n * (n + 1) * (2 * n + 1) / 6
    sy, sxy = sum(values), sum(x * y for x, y in enumerate(values, 1))
    b = (n * sxy - sx * sy) / (n * sxx - sx * sx)
    return (sy - b * sx) / n, b


def judge(values):
    """Mean, range, slope, change of the fit, verdict."""
    mean, (a, b) = sum(values) / 5, fit(values)
    line = [a + b * x for x in (1, 2, 3, 4, 5)]
    spread, change = max(values) - min(values), max(line) - min(line)
    return mean, spread / mean, b, change / mean, spread <= 0.20 * mean and change <= 0.10 * mean


def equal(ours, theirs, what):
    assert math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9), f"{what}: {ours}, expected {theirs}"


rounds = len(rates)
equal(metrics["rounds"][0], rounds, "rounds")
mean, spread, slope, change, steady = judge(rates[-5:])
equal(metrics["steady.reached"][0], steady, "verdict")
equal(metrics["steady.range"][0], 100 * spread, "range")
equal(metrics["steady.slope"][0], slope, "slope")
equal(metrics["steady.excursion"][0], 100 * change, "change of the fit")
equal(sum(metrics[TRACKED]) / 5, mean, "mean")
warned = any(warning["code"] == "steady-state.not-reached" for warning in run["warnings"])
assert warned != steady, run["warnings"]

if run["workload"] == "pts-iops":
    first = next((end for end in range(5, rounds + 1) if judge(rates[end - 5 : end])[4]), 25)
    equal(rounds, first, "the first steady round, or 25")
    before, phases = run["phases"][0], run["phases"][1:]
    assert before["ops"] == {"write": 2 * capacity // 131072}, before["ops"]
    equal(before["written_bytes"], 2 * capacity, "bytes of the preconditioning")
    point = capacity // 64
    points = [name for name in series if name.endswith(".iops")]
    mixes, sizes = (100, 95, 65, 50, 35, 5, 0), (1024, 128, 64, 32, 16, 8, 4)
    expected = [f"read-{mix}.{'1MiB' if size == 1024 else f'{size}KiB'}.iops" for mix in mixes for size in sizes]
    assert [name for name in points if ".512B." not in name] == expected, points
    # Each request is drawn: a binomial number of writes.
    blocks = [1024 * size for size in sizes] + [512] * (len(points) > 49)
    draws = [(point // max(block, 4096), block, 1 - mix / 100) for mix in mixes for block in blocks]
    total = sum(n * block * share for n, block, share in draws)
    deviation = math.sqrt(sum(n * block**2 * share * (1 - share) for n, block, share in draws))
    for one, start in zip(written, [0, *written]):
        assert abs(one - start - total) < 5 * deviation, (one - start, total, deviation)
else:
    point, phases = capacity // 32, run["phases"]
    equal(rounds, 128, "rounds")
    assert written == [(nth + 1) * point for nth in range(128)] and written[-1] == 4 * capacity
    waf = run["counters"]["nand_written_bytes"] / run["counters"]["host_written_bytes"]
    equal(sum(series["waf"]["y"]) / 128, waf, "WAF of all rounds")

for phase, rate in zip(phases, rates, strict=True):
    assert phase["ops"] == {"write": point // 4096}, phase["ops"]
    equal(rate, point // 4096 / (phase["took_ns"] / 1e9), "IOPS")
print(rounds, "rounds,", "steady" if steady else "not steady")
