"""Overhead of Dask and Ray over threads: the same cells, of about a second each, run by each engine in turn.

`target/python/bin/python crates/trimtab-python/benches/overhead.py` after `make python`, with a wheel of the release profile (docs/python.md), on an idle machine. Two workers each.
Prints one line per engine with the median of its rounds and its ratio to threads of this process. Exit status 1 if one takes more than 5 % longer.
"""

import csv
import importlib.metadata
import os
import platform
import statistics
import sys
import tempfile
import time

import trimtab

WORKERS = 2
ROUNDS = int(os.environ.get("TRIMTAB_BENCH_ROUNDS", "3"))
CELLS = int(os.environ.get("TRIMTAB_BENCH_CELLS", "60"))
MOST = 1.05


def plan() -> trimtab.Plan:
    return trimtab.Plan(
        f'repeats = {CELLS}\n[base]\ndrive.name = "crucial-m4-128gb"\ndrive.capacity = "8GiB"\nworkload = {{ name = "random", drive_writes = 4 }}\n'
        "[axes]\nworkload.read_percent = [0]\n"
    )


def seconds(client) -> float:
    began = time.perf_counter()
    table = trimtab.sweep(plan(), client=client, threads=WORKERS)
    assert set(table.column("outcome")) == {"finished"}
    return time.perf_counter() - began


def keep(took: dict[str, list[float]], load: str) -> None:
    """Writes every sample to the directory TRIMTAB_BENCH_CSV, in the format of the other benchmarks
    (crates/trimtab/benches/figures)."""
    directory = os.environ.get("TRIMTAB_BENCH_CSV")
    if not directory:
        return
    os.makedirs(directory, exist_ok=True)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("trimtab", "distributed", "ray"))
    with open(os.path.join(directory, "python.csv"), "w", newline="") as file:
        file.write(f"# Overhead of Dask and Ray over threads: {CELLS} cells, {WORKERS} at once.\n# {versions}, Python {platform.python_version()}\n")
        file.write(f"# Linux {platform.release()} {platform.machine()}, {os.cpu_count()} processors; load before {load}\n")
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["case", "figure", "unit", "sample", "value"])
        rows.writerows([name, "all cells", "s", nth + 1, value] for name, rounds in took.items() for nth, value in enumerate(rounds))


def main() -> int:
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled")
    import ray
    from distributed import Client, LocalCluster

    took = {"threads": [], "dask": [], "ray": []}
    with tempfile.TemporaryDirectory() as directory:
        ray.init(num_cpus=WORKERS, include_dashboard=False, _node_ip_address="127.0.0.1", _temp_dir=directory, log_to_driver=False)
        cluster = LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, host="127.0.0.1", local_directory=directory)
        with cluster, Client(cluster) as client:
            for way in (client, ray):
                # Starts the workers and loads the package before the measurement.
                trimtab.sweep(trimtab.Plan(plan().text.replace(f"repeats = {CELLS}", "repeats = 4").replace("drive_writes = 4", "drive_writes = 0.1")), client=way)
            for _ in range(ROUNDS):
                for name, way in (("threads", None), ("dask", client), ("ray", ray)):
                    took[name].append(seconds(way))
        ray.shutdown()
    keep(took, load)
    base = statistics.median(took["threads"])
    print(f"{CELLS} cells, {WORKERS} at once, {base * WORKERS / CELLS:.2f} s per cell, {ROUNDS} alternating rounds")
    worst = 0.0
    for name, rounds in took.items():
        ratio = statistics.median(rounds) / base
        worst = max(worst, ratio)
        print(f"{name:8} {statistics.median(rounds):7.2f} s ({min(rounds):.2f} to {max(rounds):.2f}), {ratio:.3f} times threads")
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
