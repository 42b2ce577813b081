"""What the summary of variables does with values that want to run code where they are looked at."""

import datetime
import decimal
import fractions
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from agent_kernel.notebook.context.exceptions import Places, error_text
from agent_kernel.notebook.inspect import inspect_variables
from tests.cpu import bounded

ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_runs() -> Iterator[None]:
    ran.clear()
    yield
    assert ran == [], "code of a value's own ran"


def noted(name: str) -> Any:
    def act(*_: Any, **__: Any) -> Any:
        ran.append(name)
        return (1, 2)

    return act


class Claims(type):
    """A metaclass that is asked for everything about its class."""

    __module__ = property(noted("metaclass __module__"))
    __name__ = property(noted("metaclass __name__"))
    __eq__ = noted("metaclass __eq__")
    __hash__ = noted("metaclass __hash__")
    __instancecheck__ = noted("metaclass __instancecheck__")
    __subclasscheck__ = noted("metaclass __subclasscheck__")


def methods(names: str) -> dict[str, Any]:
    return {name: noted(name) for name in names.split()}


def properties(names: str, act: Any = None) -> dict[str, Any]:
    return {name: property(act or noted(name)) for name in names.split()}


NOISY = methods("__getattr__ __getattribute__ __repr__ __str__ __len__ __iter__ __bool__ __format__")
NOISY |= properties("shape dtype columns __class__ __dict__ iloc item")


def claiming(module: str, *bases: type) -> type:
    return type("DataFrame", bases, {**NOISY, "__module__": module})


@pytest.mark.parametrize("base", [object, np.ndarray, pd.DataFrame, str])
def test_a_class_that_claims_a_librarys_module_and_a_subclass_are_only_named(base: Any) -> None:
    kind = claiming("pandas", *([] if base is object else [base]))
    value = base.__new__(kind, *([3] if base is np.ndarray else []))
    assert inspect_variables({"x": value}, {}) == "x: pandas.DataFrame"


def test_neither_a_metaclass_nor_a_module_nor_a_time_zone_is_asked_for_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Fake(types.ModuleType):
        __getattr__ = noted("module")

    class Zone(datetime.tzinfo):
        utcoffset = noted("utcoffset")
        __repr__ = noted("repr")

    odd, kind = Claims("Odd", (), {}), claiming("polars")
    fake = Fake("polars")
    vars(fake)["DataFrame"] = kind
    monkeypatch.setitem(sys.modules, "polars", fake)
    values = {"x": odd.__new__(odd), "y": kind(), "z": datetime.datetime(2026, 1, 1, tzinfo=Zone())}
    told = inspect_variables(values, {}).split("\n")
    assert told[0].endswith("Odd")
    assert told[1] == "y: polars.DataFrame"
    assert "Zone" not in told[2]


def test_an_exception_is_described_without_any_code_of_its_own() -> None:
    def act(_self: Any) -> Any:
        return noted("exception")()

    names = [
        "args",
        "__traceback__",
        "__cause__",
        "__context__",
        "__dict__",
        "__class__",
        "exceptions",
        "msg",
        "filename",
    ]
    own = NOISY | {name: property(act) for name in names}
    own |= dict.fromkeys(("__str__", "__eq__", "__bool__", "__hash__"), act)
    odd = Claims("Odd", (Exception,), own)
    failed = odd.__new__(odd, "told", claiming("numpy")())
    try:
        BaseException.__dict__["__dict__"].__get__(failed)["__notes__"] = ["noted"]
        raise failed from type("Group", (ExceptionGroup,), own)("several", [ValueError("inner"), failed])
    except Exception as error:  # noqa: BLE001 -- its class is not to be asked for anything
        ran.clear()  # Python itself asks the class when its exception is raised
        own_text = type("Text", (str,), {"__getitem__": act, "__format__": act, "__str__": act})("shown")
        text = error_text(error, Places(lambda _path: None, str(Path(__file__).parent)), own_text)
    assert "Odd: 'told', <numpy.DataFrame>" in text
    assert "\nnoted\n" in text
    assert "test_inspecting.py, line" in text
    assert "Group: several" in text
    assert "ValueError: inner" in text


def test_an_exception_of_any_size_is_described_in_few_words() -> None:
    deep: BaseException = ValueError("x" * 1_000_000)
    deep.add_note("n" * 1_000_000)
    deep.__cause__ = deep
    for number in range(200):
        deep = ExceptionGroup("g" * 1_000, [deep, OSError(2, "gone", "f" * 10_000)] if number % 2 else [deep] * 200)
    text = bounded(1, lambda: error_text(deep, Places(lambda _path: None, "/")))
    assert len(text) <= 2_400


COMPUTING = methods("__len__ __repr__ __str__ __iter__ __bool__ collect compute count execute fetchall head load")
COMPUTING |= methods("to_pandas toPandas persist describe") | properties(
    "shape height num_rows values index npartitions"
)
SCHEMA = {"price": "Int64", "name": "String"}
FIELDS = types.SimpleNamespace
EMPTY = pd.DataFrame({"price": [1], "name": ["x"]})
COLUMNS = {"columns": EMPTY.columns, "dtypes": EMPTY.dtypes}
LAZY: list[tuple[str, str, dict[str, Any]]] = [
    ("polars", "LazyFrame", {"collect_schema": lambda _: SCHEMA}),
    ("dask.dataframe", "DataFrame", COLUMNS),
    ("pyspark.sql", "DataFrame", {"schema": FIELDS(fields=[FIELDS(name=n, dataType=t) for n, t in SCHEMA.items()])}),
]


def imported(monkeypatch: pytest.MonkeyPatch, module: str, name: str, own: dict[str, Any]) -> Any:
    """A value of a type that a package has, as far as its double goes."""
    kind = type(name, (), COMPUTING | own | {"__module__": module})
    double = types.ModuleType(module)
    setattr(double, name, kind)
    monkeypatch.setitem(sys.modules, module, double)
    return kind()


@pytest.mark.parametrize(("module", "name", "own"), LAZY)
def test_a_lazy_table_is_described_by_its_schema_alone(
    module: str, name: str, own: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = inspect_variables({"sales": imported(monkeypatch, module, name, own)}, {})
    assert report.startswith(f"sales: {module.partition('.')[0]}.{name}, not computed, columns: price (")
    assert "name (" in report


def test_tables_in_memory_and_arrays_tell_shape_and_types(monkeypatch: pytest.MonkeyPatch) -> None:
    cube = np.zeros((2, 3))
    within = FIELDS(dims=("x", "y"), dtype=cube.dtype, _data=cube)
    odd = FIELDS(dims=("x",), _data=claiming("numpy")())
    given: dict[str, tuple[str, str, dict[str, Any]]] = {
        "eager": ("polars", "DataFrame", {"schema": SCHEMA, "shape": (3, 2)}),
        "tensor": ("torch", "Tensor", {"shape": (2, 3), "dtype": "float32", "device": "cpu"}),
        "cube": ("xarray", "Dataset", {"sizes": {"x": 2, "y": 3}, "variables": {"t": within, "u": odd}}),
        "blocks": ("dask.array", "Array", {"shape": (4, float("nan")), "dtype": cube.dtype}),
        "arrow": ("pyarrow", "Table", {"schema": [FIELDS(name="price", type="int64")], "shape": (3, 1)}),
        "places": ("geopandas", "GeoDataFrame", {"iloc": EMPTY.iloc, "shape": (1, 2), **COLUMNS}),
    }
    values = {name: imported(monkeypatch, *double) for name, double in given.items()}
    assert inspect_variables(values, {}).split("\n") == [
        "eager: polars.DataFrame 3 x 2, columns: price (Int64), name (String)",
        "tensor: torch.Tensor 2 x 3, dtype float32, on cpu",
        "cube: xarray.Dataset (x: 2, y: 3), variables: t (float64 (x, y)), u (numpy.DataFrame (x))",
        "blocks: dask.Array 4 x nan, dtype float64",
        "arrow: pyarrow.Table 3 x 1, columns: price (int64)",
        "places: geopandas.GeoDataFrame 1 x 2, columns: price (int64), name (str)",
        "  1 | 'x'",
    ]


def test_a_wide_table_names_its_columns_after_the_types_and_at_once() -> None:
    frame = pd.DataFrame({f"c{number}": [1 if number % 3 else "x"] for number in range(300)})
    report = inspect_variables({"frame": frame}, {})
    assert "frame: pandas.DataFrame 1 x 300, 300 columns (200 int64, 100 str): int64: c1, c2, c4" in report
    assert [number for number in range(300) if f" c{number}" not in report] == []
    wider = pd.DataFrame(np.zeros((2, 100_000)))
    assert "; and 99600 more" in bounded(2, lambda: inspect_variables({"x": wider}, {}))


def test_what_is_the_libraries_own_is_described() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    values = {
        "frame": frame,
        "column": frame["a"],
        "index": frame.index,
        "array": np.arange(4.0),
        "number": np.float64(1.5),
        "moment": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        "price": decimal.Decimal("1.50"),
        "half": fractions.Fraction(1, 2),
        "items": [1, "two", (3,)],
    }
    assert inspect_variables(values, {}).split("\n") == [
        "frame: pandas.DataFrame 3 x 2, columns: a (int64), b (str)",
        "  1 | 'x'",
        "  2 | 'y'",
        "  3 | 'z'",
        "column: pandas.Series of length 3, dtype int64, first values 1, 2, 3",
        "index: pandas.RangeIndex of length 3, dtype int64, first values 0, 1, 2",
        "array: numpy.ndarray of length 4, dtype float64, first values 0.0, 1.0, 2.0, 3.0",
        "number: numpy.float64 = 1.5",
        "moment: datetime.datetime = datetime.datetime(2026, 1, 2, 0, 0, tzinfo=datetime.timezone.utc)",
        "price: decimal.Decimal = Decimal('1.50')",
        "half: fractions.Fraction = Fraction(1, 2)",
        "items: list of length 3 = [1, 'two', (3)]",
    ]
