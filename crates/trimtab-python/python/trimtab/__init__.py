"""Models the effects of TRIM, fill level and time on a drive.

    import trimtab

    drive = trimtab.Drive("intel-x25-m-160gb").change({"capacity": "16GiB"})
    run = trimtab.simulate(drive, {"name": "random", "drive_writes": 3}, seed=1)
    run.figures["waf_ratio"]

Settings and figures are those of ``trimtab sweep``, described in docs/method/sweeps.md. Results are identical
to the byte on every machine and for any number of threads and workers. Errors are :class:`trimtab.Error`, with
the text of the command line.
"""

from ._native import MODEL, Drive, Error, Plan, Run, Table, Trace, __version__, drives, simulate
from ._sweep import load_plan, manifest, sweep

__all__ = [
    "MODEL",
    "Drive",
    "Error",
    "Plan",
    "Run",
    "Table",
    "Trace",
    "__version__",
    "drives",
    "load_plan",
    "manifest",
    "simulate",
    "sweep",
]
