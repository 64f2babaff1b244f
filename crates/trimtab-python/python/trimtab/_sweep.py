"""Runs the cells of a plan on local threads, or on a Dask or Ray cluster, with identical results."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ._native import MODEL, Error, Plan, Table, __version__

# Tasks per worker: enough to balance slow ones, and few enough to keep the overhead low.
_TASKS_A_WORKER = 16


def load_plan(path: str | os.PathLike[str]) -> Plan:
    """Reads a plan from a file. Its paths of drives and traces are relative to the directory of the file."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as wrong:
        raise Error(f"cannot read {path}: {getattr(wrong, 'strerror', None) or wrong}") from wrong
    return Plan(text, path.resolve().parent)


def sweep(
    plan: Plan | str | os.PathLike[str],
    *,
    client: Any = None,
    threads: int | None = None,
    memory_bytes: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> Table:
    """Runs all cells of a plan, or of the plan in a file, and returns the table.

    ``client`` is a ``distributed.Client`` (Dask), or the module ``ray`` after ``ray.init()``. Workers only need this
    package; each receives the files that the plan names once. Without a client, the cells run on ``threads`` threads
    of this process (default: all processors) within ``memory_bytes`` (default: four fifths of the available memory).
    ``progress`` is called with the number of finished cells.
    """
    if not isinstance(plan, Plan):
        plan = load_plan(plan)
    if client is None:
        rows = plan.run(list(range(plan.cells)), threads=_processors() if threads is None else threads, memory_bytes=memory_bytes, progress=progress)
    elif getattr(client, "__name__", "") == "ray":
        rows = _on_ray(plan, client, progress)
    elif hasattr(client, "nthreads") and hasattr(client, "scatter"):
        rows = _on_dask(plan, client, progress)
    else:
        raise Error(f"client: a distributed.Client or the module ray, not {type(client).__name__}")
    return plan.table(rows)


def manifest(plan: str | os.PathLike[str], shards: int, output: str | os.PathLike[str]) -> list[str]:
    """Returns one command per shard, for Slurm arrays and GNU parallel, and a last one that merges their directories."""
    cells = load_plan(plan).cells
    if not 1 <= shards <= cells:
        raise Error(f"shards: {shards}; a plan with {cells} cells takes 1 to {cells} shards")
    plan, output = str(plan), str(output)
    parts = [f"{output}.{n}" for n in range(1, shards + 1)]
    runs = [["trimtab", "sweep", "run", plan, "--shard", f"{n}/{shards}", "--output", part] for n, part in enumerate(parts, 1)]
    return [shlex.join(command) for command in [*runs, ["trimtab", "sweep", "merge", *parts, "--output", output]]]


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _shares(cells: int, workers: int) -> list[list[int]]:
    """Deals the cells out in turn, because neighbouring cells take about equally long."""
    tasks = max(1, min(cells, workers * _TASKS_A_WORKER))
    return [list(range(n, cells, tasks)) for n in range(tasks)]


# The current plan of this process with its traces, reused by later tasks.
_read: dict[tuple[str, str], Plan] = {}


def run_cells(text: str, digest: str, files: dict[str, bytes], model: str, cells: Sequence[int]) -> list[bytes]:
    """Runs cells in a worker."""
    if model != MODEL:
        raise Error(f"a worker has model {MODEL}, but the caller has {model}; install the same package on both")
    plan = _read.get((text, digest))
    if plan is None:
        # Older plans are unlikely to be needed again.
        _read.clear()
        plan = _read[text, digest] = Plan(text, files=files)
    return plan.run(list(cells), threads=1)


def _digest(files: dict[str, bytes]) -> str:
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for item in sorted(files.items()) for part in (item[0].encode(), item[1]))).hexdigest()


def _on_dask(plan: Plan, client: Any, progress: Callable[[int], object] | None) -> list[bytes]:
    from distributed import as_completed

    files = plan.files
    shares = _shares(plan.cells, max(1, sum(client.nthreads().values())))
    # Broadcast, because data on a single worker is lost with it and cannot be recomputed. hash=False gives a unique
    # name, so that an earlier sweep cannot release the data.
    [sent] = client.scatter([files], broadcast=True, hash=False)
    # Tasks are deterministic, so the engine may retry them after losing a worker.
    one_each = [[value] * len(shares) for value in (plan.text, _digest(files), sent, MODEL)]
    tasks = client.map(run_cells, *one_each, shares, pure=False, retries=5)
    rows: list[bytes] = []
    try:
        for _, result in as_completed(tasks, with_results=True):
            if isinstance(result, BaseException):
                raise result
            rows += result
            if progress is not None:
                progress(len(rows))
    except ModuleNotFoundError as wrong:
        raise _without_package(wrong) from wrong
    finally:
        client.cancel(tasks)
    return rows


def _on_ray(plan: Plan, ray: Any, progress: Callable[[int], object] | None) -> list[bytes]:
    work = ray.remote(max_retries=5, num_cpus=1)(run_cells)
    processors = int(ray.cluster_resources().get("CPU", 1))
    files = plan.files
    sent, digest = ray.put(files), _digest(files)
    left = [work.remote(plan.text, digest, sent, MODEL, share) for share in _shares(plan.cells, processors)]
    rows: list[bytes] = []
    while left:
        done, left = ray.wait(left)
        try:
            results = ray.get(done)
        except ModuleNotFoundError as wrong:
            raise _without_package(wrong) from wrong
        for result in results:
            rows += result
        if progress is not None:
            progress(len(rows))
    return rows


def _without_package(wrong: ModuleNotFoundError) -> Error:
    return Error(f"a worker lacks a package ({wrong}); install the wheel of trimtab {__version__} where it runs")
