"""What TRIM, fill and time do to a drive, as a library.

    import trimtab

    drive = trimtab.Drive("intel-x25-m-160gb").change({"capacity": "16GiB"})
    run = trimtab.simulate(drive, {"name": "random", "drive_writes": 3}, seed=1)
    run.figures["waf_ratio"]

Settings and figures are those of ``trimtab sweep``; docs/method/sweeps.md says what they mean. Results are the same to the byte on every machine and for
every number of threads and workers. Errors are :class:`trimtab.Error`, with the text that the command line has.
"""

from ._native import MODEL, Drive, Error, Plan, Run, Ssd, Study, Table, Trace, __version__, drives, learn, simulate, study
from ._sweep import load_plan, manifest, sweep

__all__ = [
    "MODEL",
    "Drive",
    "Error",
    "Plan",
    "Run",
    "Ssd",
    "Study",
    "Table",
    "Trace",
    "__version__",
    "drives",
    "learn",
    "load_plan",
    "manifest",
    "simulate",
    "study",
    "sweep",
]
