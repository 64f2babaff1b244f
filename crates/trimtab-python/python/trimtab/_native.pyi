from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Union, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

_Value = Union[bool, int, float, str, Mapping[str, "_Value"]]
_Section = Union[str, Mapping[str, _Value], None]
# A column of integers of any width. Arrays of the right type (np.uint64, kinds np.uint8) are not copied.
_Whole = Union[NDArray[np.integer[Any]], Sequence[int]]

__all__ = [
    "Drive",
    "Error",
    "MODEL",
    "Plan",
    "Run",
    "Table",
    "Trace",
    "__version__",
    "drives",
    "simulate",
]

MODEL: str
"""Version of the model and a hash of its sources."""
__version__: str

class Error(ValueError):
    """Error with the text of the command line."""

def drives() -> list[str]:
    """Names of the shipped drives."""

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

    ``workload``, ``policy`` and ``volume`` are a name, or a dictionary with a ``name`` and the settings of a
    ``trimtab sweep`` plan. A ``trace`` replaces the workload name.
    """

@final
class Drive:
    """A drive specification."""

    def __new__(cls, reference: str | PathLike[str]) -> Self:
        """Loads a shipped drive by name, or a specification file: anything with a ``/`` or that ends in ``.toml``."""
    @staticmethod
    def parse(text: str) -> Drive:
        """Creates a drive from the text of a specification."""
    def change(self, parameters: Mapping[str, _Value]) -> Drive:
        """The same drive with changed parameters: ``drive.change({"capacity": "8GiB", "flash.trim.command_ns": 0})``."""
    @property
    def text(self) -> str:
        """Specification with the value and source of every field. Accepted by ``parse``, and by the program as
        ``drive:FILE.toml``."""
    @property
    def twin(self) -> dict[str, Any] | None:
        """For a learned drive: ``origin``, and ``parameters`` with ``estimate``, ``low`` and ``high`` (90 % interval)."""
    @property
    def members(self) -> list[Drive]:
        """For a learned drive: all drives that explain the measurements."""
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def capacity_bytes(self) -> int: ...

@final
class Run:
    """Result of a simulation."""

    @property
    def figures(self) -> dict[str, float]:
        """Figures by name. Names end with the unit."""
    @property
    def settings(self) -> dict[str, str]: ...
    @property
    def policy(self) -> tuple[str, dict[str, str]]: ...
    @property
    def warnings(self) -> list[tuple[str, str]]:
        """Warnings about misleading figures: code and text of each."""
    @property
    def series_names(self) -> list[str]: ...
    def series(self, name: str, over: str | None = None) -> tuple[str, NDArray[np.uint64], str, NDArray[np.float64]]:
        """Axis (``time`` in nanoseconds, or ``bytes-written``), positions, unit, values. ``over`` selects the axis if there
        are two."""
    @property
    def id(self) -> str:
        """Hash of all inputs of the result, including the model."""
    @property
    def seed(self) -> int: ...

@final
class Trace:
    """Requests of a host."""

    def __new__(cls, time_ns: _Whole, kind: _Whole, offset: _Whole, length: _Whole) -> Self:
        """Arrays or lists of integers: time (nanoseconds, non-decreasing), kind (0 read, 1 write, 2 trim, 3 flush), offset
        and length (bytes)."""
    @staticmethod
    def load(path: str | PathLike[str], *, format: str | None = None, volume: int | str | None = None, events: str | None = None) -> Trace:
        """Reads a trace: ``fio``, ``blkparse``, ``msr``, ``alibaba``, ``mqsim``, ``columns``.

        A volume is a number, or device numbers such as ``"8,16"``; events are ``"Q"``, ``"D"`` or ``"C"`` of blkparse."""
    def __len__(self) -> int: ...

@final
class Plan:
    """A plan of many cells."""

    def __new__(cls, text: str, directory: str | PathLike[str] = ..., files: Mapping[str, bytes] | None = None) -> Self:
        """Drives and traces named by path are read below ``directory``, or taken from ``files`` by path."""
    @property
    def files(self) -> dict[str, bytes]:
        """Contents of the files named by the plan, by path. With its text, this is the whole plan."""
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
        """Runs cells within the memory limit. Returns one serialised row per cell, in order."""
    def table(self, rows: Sequence[bytes]) -> Table:
        """Combines rows from ``run``, from here or elsewhere, into a table."""

@final
class Table:
    """Columns whose names end with the unit. ``pyarrow.table``, ``pandas.DataFrame``, ``polars.DataFrame`` and DuckDB
    accept it."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    @property
    def column_names(self) -> list[str]: ...
    def column(self, name: str) -> list[int] | list[int | None] | list[float | None] | list[str | None]:
        """A column as a list; ``None`` for missing values."""
    def __getitem__(self, name: str, /) -> list[int] | list[int | None] | list[float | None] | list[str | None]:
        """``table["waf_ratio"]`` is shorthand for ``table.column("waf_ratio")``."""
    def __iter__(self) -> Iterator[dict[str, int | float | str | None]]:
        """Rows as dictionaries."""
    def to_pydict(self) -> dict[str, list[int] | list[int | None] | list[float | None] | list[str | None]]:
        """All columns as lists, by name."""
    @property
    def metadata(self) -> dict[str, str]: ...
    def __len__(self) -> int: ...
