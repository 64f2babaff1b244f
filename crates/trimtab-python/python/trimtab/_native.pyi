from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Union, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

_Value = Union[bool, int, float, str, Mapping[str, "_Value"]]
_Section = Union[str, Mapping[str, _Value], None]
# A column of whole numbers, of any width; what has the right one (np.uint64, kinds np.uint8) is not copied.
_Whole = Union[NDArray[np.integer[Any]], Sequence[int]]

__all__ = [
    "Drive",
    "Error",
    "MODEL",
    "Plan",
    "Run",
    "Ssd",
    "Study",
    "Table",
    "Trace",
    "__version__",
    "drives",
    "learn",
    "simulate",
    "study",
]

MODEL: str
"""The version of the model, and a hash of what it is made of."""
__version__: str

class Error(ValueError):
    """What the command line would have said."""

def drives() -> list[str]:
    """Names of the shipped drives."""

def learn(
    drive: Drive,
    budget: str = "small",
    *,
    write_limit_bytes: int | None = None,
    threads: int | None = None,
    progress: Callable[[int], Any] | None = None,
    seed: int = ...,
) -> Drive:
    """Learns a twin of a modelled drive, as ``trimtab drive learn drive:NAME``: probes it in virtual time, and finds drives that explain what they show.

    ``budget`` is ``reads``, ``small`` or ``full``. ``progress`` is called with how many candidates were tried.
    """

def simulate(
    drive: Drive,
    workload: _Section = None,
    policy: _Section = None,
    *,
    volume: _Section = None,
    trace: Trace | None = None,
    seed: int = ...,
) -> Run:
    """Runs a workload on a modelled drive under a trim policy.

    ``workload``, ``policy`` and ``volume`` are a name, or a dictionary with a ``name``; what else is in it is what a plan of ``trimtab sweep`` may set there.
    With ``trace``, that is the workload.
    """

def study(
    drive: Drive,
    policies: str | Sequence[str] | None = None,
    *,
    filesystem: str = "ext4",
    fill_percent: float = 60.0,
    quick: bool = False,
    questions: Sequence[str] | None = None,
    threads: int | None = None,
    progress: Callable[[int], Any] | None = None,
    seed: int = ...,
) -> Study:
    """Studies a modelled drive as ``trimtab study`` does: what each policy costs when files are deleted, and what it gains over months.

    ``questions`` are some of ``deleting``, ``ageing``, ``tuning`` and ``assumptions``; without it all, but with ``quick`` no assumptions. ``progress`` is called
    with how many runs are done.
    """

@final
class Study:
    """What each trim policy does to a drive, and which to use."""

    @property
    def use(self) -> str | None:
        """The policy to use; ``None`` where no one policy is."""
    @property
    def why(self) -> list[dict[str, Any]]:
        """At most two reasons with their figures."""
    @property
    def verdict(self) -> dict[str, Any]:
        """The recommendation, the rule that decided, and their figures."""
    @property
    def evidence(self) -> list[dict[str, Any]]:
        """The figures that carry the verdict."""
    @property
    def caveats(self) -> list[dict[str, Any]]:
        """What would change the verdict, and what was not shown."""
    @property
    def sure(self) -> dict[str, Any]:
        """How sure that is: by repeats, or by assumptions that were changed one at a time."""
    @property
    def assumptions(self) -> list[tuple[str, str, str, str]]:
        """Each change: the assumption, its value, the other value, and what is recommended then."""
    @property
    def untried(self) -> list[dict[str, Any]]:
        """Parts that could not be tried, each with the reason."""
    @property
    def deleting(self) -> list[Run]:
        """Files deleted under each policy, with others at work beside."""
    @property
    def ageing(self) -> list[Run]:
        """Months of churn under each policy at each fill."""
    @property
    def tuning(self) -> list[Run]:
        """Data and tuning: one thing changed at a time."""

@final
class Drive:
    """A drive specification."""

    def __new__(cls, reference: str | PathLike[str]) -> Self:
        """A shipped drive by its name, or a specification file: anything with a ``/`` or that ends in ``.toml``."""
    @staticmethod
    def parse(text: str) -> Drive:
        """A drive from the text of a specification."""
    def change(self, parameters: Mapping[str, _Value]) -> Drive:
        """The same drive with other parameters: ``drive.change({"capacity": "8GiB", "flash.trim.command_ns": 0})``."""
    @property
    def text(self) -> str:
        """Its specification, every field with its value and its source: what ``parse`` reads, and the program as ``drive:FILE.toml``."""
    @property
    def twin(self) -> dict[str, Any] | None:
        """What is known of it, if it was learned: ``origin``, and ``parameters`` with ``estimate``, ``low`` and ``high`` (90 %)."""
    @property
    def members(self) -> list[Drive]:
        """The drives that explain what a twin was learned from as well."""
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def capacity_bytes(self) -> int: ...

@final
class Run:
    """What a simulation found."""

    @property
    def figures(self) -> dict[str, float]:
        """Its figures, by names that end with their units."""
    @property
    def settings(self) -> dict[str, str]: ...
    @property
    def policy(self) -> tuple[str, dict[str, str]]: ...
    @property
    def warnings(self) -> list[tuple[str, str]]:
        """What could mislead: code and text of each."""
    @property
    def series_names(self) -> list[str]: ...
    def series(self, name: str, over: str | None = None) -> tuple[str, NDArray[np.uint64], str, NDArray[np.float64]]:
        """What it is over (``time`` in nanoseconds, or ``bytes-written``), where, its unit, its values. Some are kept over both: ``over`` says which."""
    @property
    def id(self) -> str:
        """Hash of all that decides the result, the model among it."""
    @property
    def seed(self) -> int: ...

@final
class Trace:
    """Requests of a host."""

    def __new__(cls, time_ns: _Whole, kind: _Whole, offset: _Whole, length: _Whole) -> Self:
        """When (nanoseconds, not falling), what (0 read, 1 write, 2 trim, 3 flush), where and how long (bytes): arrays of whole numbers, or lists."""
    @staticmethod
    def load(path: str | PathLike[str], *, format: str | None = None, volume: int | str | None = None, events: str | None = None) -> Trace:
        """Reads a trace: ``fio``, ``blkparse``, ``msr``, ``alibaba``, ``tencent``, ``spc``, ``fiu``, ``systor17``, ``mqsim``, ``disksim``, ``columns``.

        A volume is a number, or device numbers such as ``"8,16"``; events are ``"Q"``, ``"D"`` or ``"C"`` of blkparse."""
    def __len__(self) -> int: ...

@final
class Ssd:
    """A drive that is driven command by command."""

    def __new__(cls, drive: Drive, seed: int = ...) -> Self: ...
    def submit(
        self,
        kind: _Whole,
        offset: _Whole,
        length: _Whole,
        *,
        at_ns: _Whole | None = None,
        depth: int | None = None,
        data: str = "random",
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Submits commands (kinds as in :class:`Trace`) at ``at_ns``, or with ``depth`` in flight. Gives when each was submitted, and when it was done."""
    def idle(self, until_ns: int) -> None:
        """Tells the drive that no command arrives before then."""
    def counters(self) -> dict[str, int]: ...
    @property
    def waf(self) -> float | None:
        """Bytes written to the flash over bytes that the host wrote, so far."""
    @property
    def now_ns(self) -> int: ...
    @property
    def capacity_bytes(self) -> int: ...
    def copy(self) -> Ssd:
        """A drive in the same state, which goes its own way from here on."""

@final
class Plan:
    """A plan of many cells."""

    def __new__(cls, text: str, directory: str | PathLike[str] = ..., files: Mapping[str, bytes] | None = None) -> Self:
        """Drives and traces that it names by path are below ``directory``, or are what ``files`` has for these paths."""
    @property
    def files(self) -> dict[str, bytes]:
        """The files that it names, by the paths that it has for them: all that it needs besides its text."""
    @property
    def cells(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def directory(self) -> str: ...
    def memory_bytes(self, cell: int) -> int: ...
    def run(
        self, cells: Sequence[int], *, threads: int = ..., memory_bytes: int | None = None, progress: Callable[[int], Any] | None = None
    ) -> list[bytes]:
        """Runs these cells, and gives a row each, in a form that can be sent anywhere. No more of them at once than there is memory for."""
    def table(self, rows: Sequence[bytes]) -> Table:
        """The table of rows that ``run`` gave, here or elsewhere."""

@final
class Table:
    """Columns with names that end with their units. ``pyarrow.table``, ``pandas.DataFrame``, ``polars.DataFrame`` and DuckDB take it."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    @property
    def column_names(self) -> list[str]: ...
    def column(self, name: str) -> list[int] | list[int | None] | list[float | None] | list[str | None]:
        """A column as a list; ``None`` where there is nothing."""
    def __getitem__(self, name: str, /) -> list[int] | list[int | None] | list[float | None] | list[str | None]:
        """``table["waf_ratio"]`` is ``table.column("waf_ratio")``."""
    def __iter__(self) -> Iterator[dict[str, int | float | str | None]]:
        """Rows as dictionaries."""
    def to_pydict(self) -> dict[str, list[int] | list[int | None] | list[float | None] | list[str | None]]:
        """All columns as lists, by their names."""
    @property
    def series(self) -> Table | None:
        """Every point of every series, where the plan keeps series: ``cell``, ``series``, ``time_ns`` or ``written_bytes``, ``value``, ``unit``."""
    @property
    def histograms(self) -> Table | None:
        """Every bucket of latencies, where the plan keeps histograms: ``cell``, ``kind``, ``latency_at_most_ns``, ``operations``."""
    @property
    def metadata(self) -> dict[str, str]: ...
    def __len__(self) -> int: ...
