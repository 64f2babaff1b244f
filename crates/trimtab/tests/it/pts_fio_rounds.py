"""IOPS, throughput and latency of SNIA PTS 2.0.2, fio on the virtual SSD against `bench pts`.

pts_fio_rounds.py PROGRAM [SPEED [TEST...]].

The script draws the requests, fio replays preconditioning and rounds as one job (in pauses between jobs the drive
would work off its collection), and the script applies the rule. Fails if verdict and number of rounds are those of
none of six seeds of the model, or the mean of the window differs by more than 15 %. Needs root and fio. At a lower
SPEED (default 0.3, then a third; a tenth of that for lat), a busy machine's delays are shorter in the drive's time.
"""

import glob
import json
import os
import random
import subprocess
import sys
import tempfile

program, speed, tests = sys.argv[1], float((sys.argv[2:] or ["0.3"])[0]), sys.argv[3:] or ["iops", "tp", "lat"]
# Test, drive, capacity, requests in flight (few where a point has few requests), metrics of the model.
CASES = [
    ("iops", "intel-x25-m-160gb", 128 << 20, 32, "", "read-0%.4KiB.iops"),
    ("tp", "intel-x25-m-160gb", 512 << 20, 4, "128KiB.", "write.128KiB.rate"),
    ("tp", "ocz-vertex-le-100gb", 512 << 20, 4, "128KiB.", "write.128KiB.rate"),
    ("lat", "intel-x25-m-160gb", 128 << 20, 1, "", "read-0%.4KiB.mean-latency"),
]
KIB = 1024
SIZES = [1024 * KIB, 128 * KIB, 64 * KIB, 32 * KIB, 16 * KIB, 8 * KIB, 4 * KIB, 512]
draw = random.Random(1)


def drawn(reads, size, capacity):
    """A minute of random requests; those of 512 bytes are as many as those of 4 KiB."""
    kind = lambda: "read" if draw.random() < reads / 100 else "write"
    count = capacity // 64 // max(size, 4 * KIB)
    return [(kind(), draw.randrange(capacity // size) * size, size) for _ in range(count)]


def ordered(kind, start, length, capacity):
    return [(kind, at % capacity, 128 * KIB) for at in range(start, start + length, 128 * KIB)]


def points(test, nth, capacity):
    """The points of a round in the order of the specification. A minute is 1/64 of the drive."""
    if test == "tp":
        return [ordered(kind, nth * capacity // 64, capacity // 64, capacity) for kind in ("read", "write")]
    mixes, sizes = ((100, 65, 0), SIZES[-3:]) if test == "lat" else ((100, 95, 65, 50, 35, 5, 0), SIZES)
    return [drawn(reads, size, capacity) for reads in mixes for size in sizes]


# The point that decides: 4 KiB random writes, the last but one, or the writes of tp.
DECIDES = {"iops": -2, "tp": -1, "lat": -2}


def replay(device, depth, all_points):
    """Seconds of each point, and the mean latency of its requests in ns.

    A point takes from the completion of the last request before it to that of its own last one.
    """
    with tempfile.TemporaryDirectory() as scratch:
        with open(f"{scratch}/requests", "w") as log:
            log.write(f"fio version 2 iolog\n{device} add\n{device} open\n")
            for point in all_points:
                log.writelines(f"{device} {kind} {offset} {size}\n" for kind, offset, size in point)
            # fio does not log the last requests in flight.
            log.write(f"{device} read 0 4096\n" * 64 + f"{device} close\n")
        settings = f"name=pts ioengine=libaio direct=1 iodepth={depth} filename={device}"
        settings += f" read_iolog={scratch}/requests write_lat_log={scratch}/log"
        command = ["fio", *(f"--{setting}" for setting in settings.split())]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (log,) = glob.glob(f"{scratch}/log_lat.*.log")
        with open(log) as lines:
            # Milliseconds since the start, latency in ns.
            done = [tuple(map(int, line.split(",")[:2])) for line in lines]
    done.sort(key=lambda one: one[0])
    at, start, found = 0, 0, []
    for point in all_points:
        of = done[at : at + len(point)]
        found.append(((of[-1][0] - start) / 1000, sum(latency for _, latency in of) / len(of)))
        at, start = at + len(point), of[-1][0]
    return found


def steady(window):
    """The rule: range at most 20 % of the mean, change of the fitted line at most 10 %."""
    mean = sum(window) / 5
    slope = sum((x - 2) * value for x, value in enumerate(window)) / 10
    return max(window) - min(window) <= 0.2 * mean and abs(4 * slope) <= 0.1 * mean


def with_fio(test, device, depth, capacity, speed):
    """Verdict, number of rounds and mean of the window in the drive's time: IOPS, MB/s in tp, ns in lat."""
    values, before = [], [ordered("write", 0, 2 * capacity, capacity)]
    while len(values) < 25 and not (len(values) >= 5 and steady(values[-5:])):
        new = [points(test, nth, capacity) for nth in range(len(values), max(5, len(values) + 1))]
        found = replay(device, depth, [*before, *(point for points in new for point in points)])
        decides = [points[DECIDES[test]] for points in new]
        deciding = found[len(before) :][len(new[0]) + DECIDES[test] :: len(new[0])]
        for requests, (seconds, latency) in zip(decides, deciding):
            rate = len(requests) / seconds / speed
            values.append({"iops": rate, "tp": rate * 128 * KIB / 1e6, "lat": latency * speed}[test])
        before = []
    return steady(values[-5:]), len(values), sum(values[-5:]) / 5


failed = False
with tempfile.TemporaryDirectory() as runtime:
    os.environ["TRIMTAB_RUNTIME_DIR"] = runtime
    run = lambda *args: subprocess.run([program, *map(str, args)], check=True, stdout=subprocess.PIPE, text=True).stdout
    for test, drive, capacity, depth, stage, tracked in CASES:
        if test not in tests:
            continue
        pts = ["bench", "pts", f"drive:{drive}", "--test", test, "--capacity", capacity, "--queue-depth", depth]
        verdicts, means = [], []
        for seed in range(1, 7):
            document = json.loads(run(*pts, "--seed", seed, "--json", "--quiet"))
            metrics = {metric["name"]: metric["samples"] for metric in document["metrics"]}
            verdicts.append((metrics[f"{stage}steady.reached"][0] == 1, int(metrics[f"{stage}rounds"][0])))
            means.append(sum(metrics[tracked]) / 5)
        # With one request in flight, each delay of the host is part of a latency.
        first = speed / 10 if test == "lat" else speed
        for slower in (first, first / 3):
            attach = ["drive", "attach", drive, "--size", capacity, "--speed", f"{slower}x", "--detach-with", os.getpid()]
            device = run(*attach).strip()
            found = with_fio(test, device, depth, capacity, slower)
            run("drive", "detach", device)
            ratio = found[2] / (sum(means) / 6)
            agrees = found[:2] in verdicts and abs(ratio - 1) < 0.15
            print(f"{drive} {test} at {slower:.2g}x: fio steady: {found[0]}, {found[1]} rounds, {found[2]:.1f};"
                  f" model {verdicts}, {min(means):.1f} to {max(means):.1f}; {ratio:.3f}", flush=True)
            if agrees:
                break
        failed |= not agrees
sys.exit(failed)
