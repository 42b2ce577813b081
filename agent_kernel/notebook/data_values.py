"""Describes values of data packages: their shape, and the names and types of their columns.

Everything is read from a schema that the package has at hand. Nothing is collected, computed or counted. A type belongs
to a package where the imported package has that very type; narwhals is not used, as a kernel may not have it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

from agent_kernel.notebook.plain_values import (
    ITEMS,
    NAME_CHARACTERS,
    SCALARS,
    contents,
    module_of,
    name_of,
    safe_text,
    type_name,
)

COLUMNS_NAMED = 400
_COLUMNS = 40
"""A table with more columns is told by their types first."""
_ROWS, _TABLES, _CATALOGUE_ROWS = 3, 20, 2_000
_LABEL_CHARACTERS, _SHORT_LABEL_CHARACTERS = 60, 40
_CATALOGUE = (
    "SELECT table_name, column_name, data_type FROM duckdb_columns() "
    f"WHERE NOT internal AND database_name = current_database() "
    f"ORDER BY table_name, column_index LIMIT {_CATALOGUE_ROWS}"
)

Describe = Callable[[Any, bool], str]
"""Describes a value, with a preview of its data or without."""


@dataclass(frozen=True, slots=True)
class Columns:
    first: Sequence[tuple[Any, Any]]
    """Names and types, of at most 400."""
    total: int

    @property
    def text(self) -> str:
        if self.total <= _COLUMNS:
            return "columns: " + ", ".join(f"{_label(name)} ({dtype_text(kind)})" for name, kind in self.first)
        named = [(dtype_text(kind), _label(name, _SHORT_LABEL_CHARACTERS)) for name, kind in self.first]
        counts = ", ".join(f"{count} {kind}" for kind, count in Counter(kind for kind, _ in named).most_common(10))
        groups = groupby(sorted(named, key=lambda one: one[0]), lambda one: one[0])
        listed = "; ".join(f"{kind}: {', '.join(name for _, name in group)}" for kind, group in groups)
        more = self.total - len(self.first)
        return f"{self.total} columns ({counts}): {listed}" + (f"; and {more} more" if more else "")


def library_describer(kind: type) -> Describe | None:
    """The function that describes values of exactly this type, if an imported data package has the type."""
    for module, names, describer in _LIBRARIES:
        found = contents(module)
        if found and any(found.get(name) is kind for name in names):
            return describer
    return None


def columns_of(value: Any) -> Columns | None:
    """The columns of a table; `None` for other values."""
    describer = library_describer(type(value))
    return describer.columns(value) if type(describer) is _Table else None


@dataclass(frozen=True, slots=True)
class _Table:
    """Describes a table."""

    columns: Callable[[Any], Columns]
    size: Callable[[Any], str] = lambda _value: ", not computed"
    rows: Callable[[Any, Columns], list[str]] = lambda _value, _columns: []

    def __call__(self, value: Any, preview: bool) -> str:
        columns = self.columns(value)
        head = f"{type_name(value)}{self.size(value)}, {columns.text}"
        return "\n".join([head, *(self.rows(value, columns) if preview else [])])


def _of_pairs(pairs: Iterable[tuple[Any, Any]]) -> Columns:
    known = list(pairs)
    return Columns(known[:COLUMNS_NAMED], len(known))


def _of_pandas(value: Any) -> Columns:
    """Also of dask's, which answers for the empty table that it keeps."""
    names, kinds = value.columns, value.dtypes.iloc[:COLUMNS_NAMED]
    return Columns(list(zip(names[:COLUMNS_NAMED], kinds, strict=True)), names.size)


def _of_fields(value: Any) -> Columns:
    return _of_pairs((field.name, field.type) for field in value.schema)


def _of_spark(value: Any) -> Columns:
    return _of_pairs((field.name, field.dataType) for field in value.schema.fields)


def _shape_of(value: Any) -> str:
    return f" {_shape(value.shape)}"


def _rows(value: Any, columns: Columns) -> list[str]:
    """The first rows of a pandas table whose columns are all pandas' own."""
    shown = columns.first[:_COLUMNS]
    if not all(_is_known_dtype(kind) for _, kind in shown):
        return []
    cells = (value.iloc[row, : len(shown)].tolist() for row in range(min(_ROWS, value.shape[0])))
    return ["  " + " | ".join(safe_text(cell, 0) for cell in row) for row in cells]


def _describe_connection(value: Any, _preview: bool) -> str:
    """By a connection of its own, which leaves alone what the user's is about to fetch."""
    found = value.cursor().execute(_CATALOGUE).fetchall()
    tables = {
        table: _of_pairs((column, kind) for _, column, kind in rows)
        for table, rows in groupby(found, lambda row: row[0])
    }
    lines = [f"  {_label(table)}: {columns.text}" for table, columns in islice(tables.items(), _TABLES)]
    more = len(tables) - len(lines)
    head = f"{type_name(value)}, tables: {', '.join(map(_label, islice(tables, _TABLES))) or 'none'}"
    return "\n".join([head + (f", and {more} more" if more else ""), *lines])


def _describe_dataset(value: Any, _preview: bool) -> str:
    sizes = ", ".join(f"{_label(name)}: {size}" for name, size in islice(value.sizes.items(), _COLUMNS))
    named = [
        (name, f"{_type_within(one)} ({', '.join(map(_label, one.dims))})") for name, one in value.variables.items()
    ]
    return f"{type_name(value)} ({sizes}), {_of_pairs(named).text.replace('columns', 'variables', 1)}"


def _describe_data_array(value: Any, _preview: bool) -> str:
    shape = f" {_shape(value.shape)}" if _is_of_a_package(type(_unloaded(value.variable))) else ""
    dimensions = ", ".join(map(_label, value.dims))
    return f"{type_name(value)}{shape} ({dimensions}), dtype {_type_within(value.variable)}"


def _type_within(variable: Any) -> str:
    """The type of an xarray variable's values. A container of the user's own is not asked."""
    within = _unloaded(variable)
    return dtype_text(variable.dtype) if _is_of_a_package(type(within)) else type_name(within)


def _unloaded(variable: Any) -> Any:
    return variable._data  # noqa: SLF001 -- `data`, which is documented, loads what is lazy


def _describe_array(value: Any, preview: bool) -> str:
    head = _describe_shaped(value, False)
    if not preview or value.dtype.kind not in "biufcMmUS":
        return head
    return f"{head}, first values {', '.join(str(item)[:60] for item in value.flat[:ITEMS])}"


def _describe_scalar(value: Any, preview: bool) -> str:
    return f"{type_name(value)} = {safe_text(value)}" if preview else type_name(value)


def _describe_column(value: Any, preview: bool) -> str:
    head = _describe_shaped(value, False)
    if not preview or not _is_known_dtype(value.dtype):
        return head
    first = (value.iloc[:ITEMS] if hasattr(value, "iloc") else value[:ITEMS]).tolist()
    return f"{head}, first values {', '.join(safe_text(item, 0) for item in first)}"


def _describe_lazy_column(value: Any, _preview: bool) -> str:
    return f"{type_name(value)} {_label(value.name)}, dtype {dtype_text(value.dtype)}, not computed"


def _describe_shaped(value: Any, _preview: bool) -> str:
    return f"{type_name(value)} {_shape(value.shape)}, dtype {dtype_text(value.dtype)}"


def _describe_tensor(value: Any, _preview: bool) -> str:
    return f"{_describe_shaped(value, False)}, on {str(value.device)[:20]}"


def _describe_chunks(value: Any, _preview: bool) -> str:
    return f"{type_name(value)}, dtype {dtype_text(value.type)}"


def _shape(shape: Sequence[Any]) -> str:
    sizes = [str(size)[:20] for size in shape[:ITEMS]]
    return " x ".join(sizes) if len(sizes) != 1 else f"of length {sizes[0]}"


def _label(name: Any, most: int = _LABEL_CHARACTERS) -> str:
    return name[:most] if type(name) is str else safe_text(name, 1)[:most]


def dtype_text(dtype: Any) -> str:
    """The name of a type of columns. Of one that is the user's own only its class is named."""
    if type(dtype) is str:
        return dtype[:NAME_CHARACTERS]
    kind = dtype if issubclass(type(dtype), type) else type(dtype)
    known = _is_known_dtype(dtype) or _is_of_a_package(kind)
    return str(dtype)[:NAME_CHARACTERS] if known else type_name(dtype)


def _is_known_dtype(dtype: Any) -> bool:
    """Whether a dtype is numpy's or pandas' own. Reading a column of any other dtype may run the user's code."""
    kind = type(dtype)
    of_numpy = contents("numpy").get("dtype")
    if of_numpy is not None and issubclass(kind, of_numpy):  # numpy's dtype can't be subclassed by others
        return True
    return contents("pandas").get(name_of(kind)) is kind


def _is_of_a_package(kind: type) -> bool:
    """Whether a class is in the module of a data package that it says it is in."""
    module = module_of(kind)
    if type(module) is not str or module.partition(".")[0].removeprefix("_") not in _PACKAGES:
        return False
    return contents(module).get(name_of(kind)) is kind


_PACKAGES = frozenset(
    {"dask", "duckdb", "geopandas", "ibis", "numpy", "pandas", "polars", "pyarrow", "pyspark", "torch", "xarray"}
)
_INDEXES = ("Index", "RangeIndex", "MultiIndex", "DatetimeIndex", "TimedeltaIndex", "PeriodIndex", "CategoricalIndex")
_LIBRARIES: tuple[tuple[str, tuple[str, ...], Describe], ...] = (
    ("numpy", ("ndarray", "memmap", "matrix"), _describe_array),
    ("numpy", SCALARS, _describe_scalar),
    ("pandas", ("DataFrame",), _Table(_of_pandas, _shape_of, _rows)),
    ("geopandas", ("GeoDataFrame",), _Table(_of_pandas, _shape_of, _rows)),
    ("pandas", ("Series", "IntervalIndex", *_INDEXES), _describe_column),
    ("geopandas", ("GeoSeries",), _describe_column),
    ("polars", ("DataFrame",), _Table(lambda value: _of_pairs(value.schema.items()), _shape_of)),
    ("polars", ("LazyFrame",), _Table(lambda value: _of_pairs(value.collect_schema().items()))),
    ("polars", ("Series",), _describe_shaped),
    ("duckdb", ("DuckDBPyRelation",), _Table(lambda value: _of_pairs(zip(value.columns, value.types, strict=True)))),
    ("duckdb", ("DuckDBPyConnection",), _describe_connection),
    ("dask.dataframe", ("DataFrame",), _Table(_of_pandas)),
    ("dask.dataframe", ("Series", "Index"), _describe_lazy_column),
    ("dask.array", ("Array",), _describe_shaped),
    ("pyspark.sql", ("DataFrame",), _Table(_of_spark)),
    ("pyspark.sql.classic.dataframe", ("DataFrame",), _Table(_of_spark)),
    ("pyspark.sql.connect.dataframe", ("DataFrame",), _Table(_of_spark)),
    ("ibis.expr.types", ("Table",), _Table(lambda value: _of_pairs(value.schema().items()))),
    ("pyarrow", ("Table", "RecordBatch"), _Table(_of_fields, _shape_of)),
    ("pyarrow", ("RecordBatchReader",), _Table(_of_fields)),
    ("pyarrow.dataset", ("FileSystemDataset", "InMemoryDataset", "UnionDataset"), _Table(_of_fields)),
    ("pyarrow", ("ChunkedArray",), _describe_chunks),
    ("xarray", ("Dataset",), _describe_dataset),
    ("xarray", ("DataArray",), _describe_data_array),
    ("torch", ("Tensor",), _describe_tensor),
    ("torch.nn", ("Parameter",), _describe_tensor),
)
"""Types of data packages: their module, their names in it, and the function that describes their values."""
