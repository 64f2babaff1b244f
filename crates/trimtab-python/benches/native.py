"""Overhead of Python: the same simulation by the program and by the package, alternately.

`target/python/bin/python crates/trimtab-python/benches/native.py` after `make python`, with a wheel and a program of the release profile (docs/python.md; TRIMTAB is the path of the program),
on an idle machine. Prints medians. Exit status 1 if the package is slower than 0.95 of the program.
"""

import csv
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import trimtab

PROGRAM = os.environ.get("TRIMTAB", "target/release/trimtab")
ROUNDS = int(os.environ.get("TRIMTAB_BENCH_ROUNDS", "5"))
DRIVE, CAPACITY, DRIVE_WRITES = "crucial-m4-128gb", "8GiB", 16
RATE_MIN = 0.95


def by_program(directory: str) -> tuple[float, float]:
    """Returns the time in seconds and the write amplification."""
    command = [PROGRAM, "--quiet", "--json", "--store", f"{directory}/store.db", "drive", "simulate", "--drive", DRIVE, "--capacity", CAPACITY]
    began = time.perf_counter()
    output = subprocess.run([*command, "--until-written", f"{DRIVE_WRITES}x", "--trim", "none"], check=True, capture_output=True).stdout
    took = time.perf_counter() - began
    return took, next(metric["samples"][0] for metric in json.loads(output)["metrics"] if metric["name"] == "waf")


def by_package() -> tuple[float, float]:
    began = time.perf_counter()
    run = trimtab.simulate(trimtab.Drive(DRIVE).change({"capacity": CAPACITY}), {"name": "random", "drive_writes": DRIVE_WRITES}, "none")
    return time.perf_counter() - began, run.figures["waf_ratio"]


def keep(rows: list[tuple[str, str, str, list[float]]], load: str) -> None:
    """Writes every sample to the directory TRIMTAB_BENCH_CSV, in the format of the other benchmarks
    (crates/trimtab/benches/figures)."""
    directory = os.environ.get("TRIMTAB_BENCH_CSV")
    if not directory:
        return
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "python-native.csv"), "w", newline="") as file:
        file.write(f"# The same simulation by the program and by the package ({DRIVE} at {CAPACITY}, {DRIVE_WRITES} drive-writes).\n")
        file.write(f"# trimtab {trimtab.__version__}, numpy {np.__version__}, Python {platform.python_version()}\n")
        file.write(f"# Linux {platform.release()} {platform.machine()}, {os.cpu_count()} processors; load before {load}\n")
        rows_out = csv.writer(file, lineterminator="\n")
        rows_out.writerow(["case", "figure", "unit", "sample", "value"])
        rows_out.writerows([case, figure, unit, nth + 1, value] for case, figure, unit, values in rows for nth, value in enumerate(values))


def main() -> int:
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    program, package = [], []
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(ROUNDS):
            (there, waf_there), (here, waf_here) = by_program(directory), by_package()
            assert waf_there == waf_here, "not the same simulation"
            program.append(there)
            package.append(here)
    keep([("simulate", "program", "s", program), ("simulate", "package", "s", package)], load)
    rate = statistics.median(program) / statistics.median(package)
    print(f"simulate: {statistics.median(program):.2f} s by the program, {statistics.median(package):.2f} s from Python: {rate:.3f} of its speed (required: {RATE_MIN})")
    return int(rate < RATE_MIN)


if __name__ == "__main__":
    sys.exit(main())
