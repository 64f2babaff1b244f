"""Checks a run of `bench pts` (JSON on stdin) against SNIA PTS 2.0.2, without Trimtab's code."""

import json
import math
import sys

run = json.load(sys.stdin)
metrics = {metric["name"]: metric["samples"] for metric in run["metrics"]}
series = {one["name"]: one for one in run["series"]}
capacity = int(run["settings"]["capacity"])
test = run["workload"].removeprefix("pts-")
MINUTE = (capacity // 64) >> 20 << 20
LATENCIES = ["mean-latency", "p99.999-latency", "max-latency"]
FIGURES = {"iops": ["iops"], "hir": ["iops"], "tp": ["rate"], "lat": LATENCIES, "xsr": ["rate", "mean-latency", "max-latency"]}
figures = FIGURES.get(test, ["iops", *LATENCIES])
# Stages with a steady state: name, point, largest number of rounds.
STEADY = {
    "iops": [("", "read-0%.4KiB")],
    "tp": [("128KiB", "write.128KiB"), ("1MiB", "write.1MiB")],
    "lat": [("", "read-0%.4KiB")],
    "wsat": [("", "read-0%.4KiB")],
    "hir": [("precondition", "precondition")],
    "xsr": [],
    "cbw": [("precondition", "precondition"), ("demand", "outstanding-1024")],
    "dirth": [("precondition", "precondition"), ("demand", "outstanding-1024")],
}[test]
DEPTHS = sorted({a * b for a in (32, 16, 8, 6, 4, 2, 1) for b in (32, 16, 8, 6, 4, 2, 1)}, reverse=True)
# Sizes in bytes and percentages of JESD219A.
JESD219 = [(512, 4), (1024, 1), (1536, 1), (2048, 1), (2560, 1), (3072, 1), (3584, 1)]
JESD219 += [(4096, 67), (8192, 10), (16384, 7), (32768, 3), (65536, 3)]


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


def near(value, mean, deviation, what):
    assert abs(value - mean) <= 5 * deviation + 1e-9, f"{what}: {value}, expected {mean} ± {deviation}"


def steps(name, start):
    """Bytes of each round, by a series that begins after `start` bytes."""
    x = series[name]["x"]
    return [end - begin for begin, end in zip([start, *x], x)]


verdicts, ends = [], {}
for stage, point in STEADY:
    label = f"{stage}." if stage else ""
    rates = series[f"{point}.{figures[0]}"]["y"]
    rounds = len(rates)
    equal(metrics[f"{label}rounds"][0], rounds, "rounds")
    window = rates[-5:]
    if test == "wsat":
        # Its last capacity: five means of six rounds.
        window = [sum(rates[at : at + 6]) / 6 for at in range(98, 128, 6)]
    mean, spread, slope, change, steady = judge(window)
    equal(metrics[f"{label}steady.reached"][0], steady, "verdict")
    equal(metrics[f"{label}steady.range"][0], 100 * spread, "range")
    equal(metrics[f"{label}steady.slope"][0], slope, "slope")
    equal(metrics[f"{label}steady.excursion"][0], 100 * change, "change of the fit")
    equal(sum(metrics[f"{point}.{figures[0]}"]) / 5, mean, "mean")
    if test != "wsat":
        first = next((end for end in range(5, rounds + 1) if judge(rates[end - 5 : end])[4]), 25)
        equal(rounds, first, "the first steady round, or 25")
    verdicts.append((f"{stage} " if stage else "") + f"{rounds} rounds, {'steady' if steady else 'not steady'}")
    ends[stage] = (rounds, steady)
warned = sum(warning["code"] == "steady-state.not-reached" for warning in run["warnings"])
assert warned == sum(not steady for _, steady in ends.values()), run["warnings"]

phases = {}
for phase in run["phases"]:
    phases.setdefault(phase["name"], []).append(phase)
for name, of in phases.items():
    kept = series.get(f"{name}.iops")
    if kept and len(of) == len(kept["y"]):
        for phase, rate in zip(of, kept["y"]):
            equal(rate, sum(phase["ops"].values()) / (phase["took_ns"] / 1e9), f"IOPS of {name}")
names = [name.removesuffix(f".{figures[0]}") for name in series if name.endswith(f".{figures[0]}")]
assert len(series) == len(names) * len(figures) + ("waf" in series), sorted(series)


def twice(name, block):
    """Preconditioning: the capacity twice, in order."""
    phase = phases[name][0]
    equal(phase["written_bytes"], 2 * (capacity // block * block), "bytes of the preconditioning")
    assert phase["ops"] == {"write": 2 * (capacity // block)}, phase["ops"]


def grid(mixes, sizes):
    """Names of random points, and the bytes written in each round."""
    label = lambda size: "1MiB" if size == 1024 else "512B" if size == 0.5 else f"{size}KiB"
    expected = [f"read-{mix}%.{label(size)}" for mix in mixes for size in sizes]
    left_out = [name for name in expected if name not in names]
    assert all(name.endswith(".512B") for name in left_out), left_out
    assert names == [name for name in expected if name in names], names
    # Each request is drawn: a binomial number of writes.
    draws = [(MINUTE // max(int(1024 * size), 4096), int(1024 * size), 1 - mix / 100)
             for mix in mixes for size in sizes if f"read-{mix}%.{label(size)}" in names]
    total = sum(n * block * share for n, block, share in draws)
    deviation = math.sqrt(sum(n * block**2 * share * (1 - share) for n, block, share in draws))
    for bytes_ in steps(f"read-0%.4KiB.{figures[0]}", 0):
        near(bytes_, total, deviation, "bytes of a round")


if test == "iops":
    twice("precondition", 131072)
    grid((100, 95, 65, 50, 35, 5, 0), (1024, 128, 64, 32, 16, 8, 4, 0.5))
    assert all(phase["ops"] == {"write": MINUTE // 4096} for phase in phases["read-0%.4KiB"])
elif test == "lat":
    twice("precondition", 131072)
    grid((100, 65, 0), (8, 4, 0.5))
    # One request at a time: the mean latency is the time of a request.
    for phase, mean in zip(phases["read-0%.4KiB"], series["read-0%.4KiB.mean-latency"]["y"]):
        assert abs(mean / (phase["took_ns"] / phase["ops"]["write"]) - 1) < 0.01, mean
elif test == "tp":
    assert names == ["read.128KiB", "write.128KiB", "read.1MiB", "write.1MiB"], names
    written = 0
    for size, block in (("128KiB", 1 << 17), ("1MiB", 1 << 20)):
        twice(f"precondition.{size}", block)
        # The bytes of a later preconditioning count, those of the first do not.
        written += phases[f"precondition.{size}"][0]["written_bytes"] if written else 0
        assert steps(f"write.{size}.rate", written) == [MINUTE] * ends[size][0]
        written = series[f"write.{size}.rate"]["x"][-1]
        for phase, rate in zip(phases[f"write.{size}"], series[f"write.{size}.rate"]["y"]):
            equal(rate, MINUTE / (phase["took_ns"] / 1e9) / 1e6, "MB/s")
elif test == "wsat":
    assert steps("read-0%.4KiB.iops", 0) == [capacity // 32] * 128
    waf = run["counters"]["nand_written_bytes"] / run["counters"]["host_written_bytes"]
    equal(sum(series["waf"]["y"]) / 128, waf, "WAF of all rounds")
elif test == "hir":
    idle = [f"{kind}-{seconds}s" for seconds in (5, 10, 15, 25, 50) for kind in ("idle", "after")]
    assert names == ["precondition.first", "precondition", *idle], names
    written = series["precondition.iops"]["x"][-1]
    assert written == ends["precondition"][0] * 30 * MINUTE
    for name in idle:
        assert steps(f"{name}.iops", written) == [MINUTE // 12 // 4096 * 4096] * 360, name
        written = series[f"{name}.iops"]["x"][-1]
        equal(metrics[f"{name}.iops"][0], series[f"{name}.iops"]["y"][300], "first of the last 60 bursts")
elif test == "xsr":
    written = 0
    for name, hours in (("sequential-before", 8), ("random", 6), ("sequential-after", 8)):
        assert steps(f"{name}.rate", written) == [MINUTE] * (hours * 60), name
        written = series[f"{name}.rate"]["x"][-1]
        equal(sum(metrics[f"{name}.rate"]) / (hours * 10), sum(series[f"{name}.rate"]["y"][-hours * 10 :]) / (hours * 10), name)
else:
    demands = [f"outstanding-{depth}" for depth in DEPTHS]
    assert names == ["precondition.first", "precondition", "pre-write", *demands, "least", "middle", "most"], names
    mean = lambda name, figure: sum(series[f"{name}.{figure}"]["y"][-5:]) / 5
    points = [(mean(name, "iops"), depth) for name, depth in zip(demands, DEPTHS) if mean(name, "mean-latency") < 5e6]
    least, most = mean("outstanding-1", "iops"), max(points)
    middle = min(points, key=lambda point: abs(point[0] - (least + most[0]) / 2))
    chosen = [metrics[f"{name}.queue-depth"][0] for name in ("least", "middle", "most")]
    assert chosen == [1, middle[1], most[1]], (chosen, points)
    # Little's law, where the requests are many times those in flight.
    for name, depth in zip(demands, DEPTHS):
        rounds = zip(series[f"{name}.iops"]["y"][-5:], series[f"{name}.mean-latency"]["y"][-5:])
        held = sum(rate * latency / 1e9 for rate, latency in rounds) / 5
        assert depth > MINUTE / 8192 / 40 or abs(held / depth - 1) < 0.06, (name, held)
    (size, deviation) = (8192, 0)
    reads = 0.65
    if test == "cbw":
        sizes = [(size, share / 100) for size, share in JESD219]
        size = sum(one * share for one, share in sizes)
        deviation = math.sqrt(sum(one**2 * share for one, share in sizes) - size**2)
        reads = 0.4
        ten = phases["most"][0]
        near(ten["ops"]["write"], 10 * MINUTE / size * 0.6, math.sqrt(10 * MINUTE / size), "writes of 10 minutes")
        near((ten["read_bytes"] + ten["written_bytes"]) / sum(ten["ops"].values()), size, deviation / math.sqrt(sum(ten["ops"].values())), "mean size")
    # A round: writes for five minutes, then a mix for one minute at each demand.
    minutes = 5 + len(DEPTHS) * (1 - reads)
    requests = len(DEPTHS) * MINUTE / size
    spread = math.sqrt(requests * (size**2 + deviation**2)) + (len(DEPTHS) + 1) * 65536
    start = series["precondition.iops"]["x"][-1]
    for bytes_ in steps("outstanding-1024.iops", start):
        near(bytes_, minutes * MINUTE, spread, "bytes of a round")
print("; ".join(verdicts) or "no steady state")
