"""Tables of bars as pandas frames: reading files, finding columns by meaning, and columns as plain arrays.

A table has one row per bar and asset. Its columns are found by meaning, whatever they are called: `SPELLINGS` has the
names that count.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from alphaswarm_rl.core.errors import DataError, nearest
from alphaswarm_rl.core.files import open_regular
from alphaswarm_rl.core.types import Array

if TYPE_CHECKING:
    import pandas as pd

#: Spellings by meaning. Case does not matter, and blanks and hyphens are underscores.
SPELLINGS: dict[str, tuple[str, ...]] = {
    "timestamp": ("timestamp", "date", "datetime", "time", "ts"),
    "asset": ("asset", "tic", "symbol", "ticker"),
    "open": ("open",),
    "high": ("high",),
    "low": ("low",),
    "close": ("close",),
    "adj_close": ("adj_close", "adjusted_close", "adjclose", "adjcp"),
    "volume": ("volume",),
    "dividends": ("dividends", "dividend"),
    "splits": ("splits", "stock_splits", "split"),
    "tradable": ("tradable",),
}

_MEANINGS = {spelling: meaning for meaning, spellings in SPELLINGS.items() for spelling in spellings}
_FLAGS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
_ZONE = r"(Z|[+-]\d\d:?\d\d)$"


class NotATable(DataError):
    """A file that is another than it says."""


class OtherSeparator(NotATable):
    """A CSV file whose cells are separated by another sign than it is read with."""


class NoSuchColumn(DataError):
    """A column that is asked for and that the data lacks."""


#: What separates the cells of a CSV file, by the words that say so.
SEPARATORS = {",": ",", ";": ";", "|": "|", "tab": "\t"}
#: A number with that decimal sign.
_NUMBER = r"\s*[+-]?\d*{}\d+([eE][+-]?\d+)?\s*"
#: Name of a frame's index where it has the lines of a file, as editors count them: the first is 1, the header's.
_LINE = "line of the file"

#: Lines that show how numbers are written, and bytes of each.
_LINES_LOOKED_AT, _LONGEST_LINE = 20, 1 << 16

#: Numbers that a table may have; as float64 they take 8 GiB.
_MOST_CELLS = 1 << 30


def read_csv(
    path: Path, *, below: Path | None = None, text: Collection[str] = (), separator: str = ",", decimal: str = "."
) -> pd.DataFrame:
    """The frame of a CSV file; numbers are read exactly, and symbols such as NA, ON or 0700 stay text.

    Its index has the line of each row in the file, so that whatever is wrong can be found there.

    Args:
        path: The file, which may be compressed by gzip: `bars.csv.gz`.
        below: The folder that it must lie in, links followed; None: it may lie anywhere.
        text: More columns that are text, beside those whose names mean an asset or a moment.
        separator: What separates its cells, one of `SEPARATORS`.
        decimal: Its decimal sign, a point or a comma.
    """
    import pandas as pd

    sign = SEPARATORS[separator]
    with _opened(path, below) as file, _refusing(path, "CSV"):
        content = _unpacked(file) if path.suffix == ".gz" else file
        header = pd.read_csv(content, nrows=0, sep=sign)
        _refuse_other_separator(path, list(map(str, header.columns)), separator, content)
        content.seek(0)
        meant = ("asset", "timestamp")
        written = {name: str for name in header.columns if canonical(name) in meant or name in text}
        frame = pd.read_csv(
            content,
            sep=sign,
            decimal=decimal,
            dtype=written,
            keep_default_na=False,
            na_values={
                name: ["", "nan", "NaN", "NA", "null", "None"] for name in header.columns if name not in written
            },
        )
        if isinstance(frame.index, pd.RangeIndex):  # else its rows are longer than its header
            lines = _lines(content, len(frame), sign)
            frame.index = pd.RangeIndex(len(frame)) if lines is None else pd.Index(lines, name=_LINE)
        return frame if decimal == "." else _with_points(frame, [name for name in frame.columns if name not in written])


def _refuse_other_separator(path: Path, header: Sequence[str], separator: str, content: BinaryIO) -> None:
    """Refuses a file whose header is one cell with another separator in it; with its decimal sign, where that shows."""
    if len(header) > 1:
        return
    counts = {word: "".join(header).count(sign) for word, sign in SEPARATORS.items() if word != separator}
    other = max(counts, key=counts.__getitem__)
    if counts[other]:
        why = f"its header {''.join(header)!r:.60} has no {separator!r}: its cells are separated by {other!r}"
        parameters, signs, flags = "parameter separator", f"{other!r}", f"--separator {other!r}"
        if _has_decimal_commas(content, SEPARATORS[other]):
            why += ", and the decimal sign of its numbers is a comma"
            parameters, signs, flags = "parameters separator and decimal", f"{signs} and ','", f"{flags} --decimal ,"
        remedy = f"Set the {parameters} of csv: {signs} (rl data check: {flags})."
        raise OtherSeparator(f"the file {str(path)!r}", why, remedy)


def _has_decimal_commas(content: BinaryIO, separator: str) -> bool:
    """Whether the first lines below a header have numbers with a comma and none with a point."""
    content.seek(0)
    lines = [content.readline(_LONGEST_LINE).decode(errors="replace") for _ in range(_LINES_LOOKED_AT)]
    cells = [cell.strip().strip('"') for line in lines[1:] for cell in line.split(separator)]
    commas, points = (any(re.fullmatch(_NUMBER.format(sign), cell) for cell in cells) for sign in (",", r"\."))
    return commas and not points


def _with_points(frame: pd.DataFrame, numbers: Iterable[str]) -> pd.DataFrame:
    """The frame of a file with decimal commas, with points in columns where some cell is no number.

    Numbers with a point are refused: it may count thousands.
    """
    import pandas as pd

    frame = frame.copy(deep=False)
    for name in numbers:
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column.dtype):
            continue
        written = column.astype(str)
        pointed = np.flatnonzero(written.str.fullmatch(_NUMBER.format(r"\.")).to_numpy())
        if len(pointed):
            raise NotATable(
                f"{place_of(column.index, pointed[0])}, column {str(name)!r}",
                f"{column.iloc[pointed[0]]!r} has a point, and the decimal sign is a comma",
                "Leave signs for thousands out, or set the parameter decimal of csv: '.'.",
            )
        frame[name] = column.mask(written.str.fullmatch(_NUMBER.format(",")), written.str.replace(",", "."))
    return frame


def _lines(content: BinaryIO, rows: int, separator: str) -> Sequence[int] | None:
    """The line on which each row begins, blank lines and those within quotes counted; None where nobody can say."""
    content.seek(0)
    breaks, last = 0, b"\n"
    while chunk := content.read(1 << 20):
        breaks, last = breaks + chunk.count(b"\n"), chunk[-1:]
    if breaks + (last != b"\n") == rows + 1:
        return range(2, rows + 2)
    content.seek(0)
    text = io.TextIOWrapper(content, encoding="utf-8-sig", newline="")
    begun, before = [], 0
    try:
        reader = csv.reader(text, delimiter=separator)
        for cells in reader:
            if len(cells) > 1 or "".join(cells).strip():
                begun.append(before + 1)
            before = reader.line_num
    except csv.Error:  # a cell that is longer than that module takes
        return None
    finally:
        text.detach()
    return begun[1:] if len(begun) == rows + 1 else None


def place_of(index: pd.Index[Any], row: int | np.integer, *details: str) -> str:
    """Where a row of a table is, in words: the line of its file, or its number from 0 on.

    Args:
        index: The table's index.
        row: The number of the row.
        *details: What else tells it apart, for brackets behind.
    """
    is_line = index.name == _LINE
    inside = "; ".join([*([] if is_line else ["from 0"]), *([", ".join(details)] if details else [])])
    return f"{f'line {index[row]}' if is_line else f'row {row}'}{f' ({inside})' if inside else ''}"


def has_lines(frame: pd.DataFrame) -> bool:
    """Whether a frame's index has the lines of a file."""
    return bool(frame.index.name == _LINE)


def read_parquet(path: Path, *, below: Path | None = None) -> pd.DataFrame:
    """The frame of a Parquet file.

    Args:
        path: The file.
        below: The folder that it must lie in, links followed; None: it may lie anywhere.
    """
    import pyarrow.parquet as pq

    with _opened(path, below) as file, _refusing(path, "Parquet"):
        table = pq.ParquetFile(file)
        cells = table.metadata.num_rows * table.metadata.num_columns
        if cells > _MOST_CELLS:
            raise ValueError(f"it says that it has {cells} numbers, and {_MOST_CELLS} are the most")
        return table.read().to_pandas(date_as_object=False)


def _opened(path: Path, below: Path | None) -> BinaryIO:
    try:
        return open_regular(path, below=below)
    except FileNotFoundError as error:
        raise DataError(f"the file {str(path)!r}", "it is not there", "Check the path.") from error
    except OSError as error:
        raise DataError(f"the file {str(path)!r:.200}", f"{error.strerror or error}", "Check the path.") from error


def _unpacked(file: BinaryIO) -> BinaryIO:
    most_bytes = 8 * _MOST_CELLS
    with gzip.GzipFile(fileobj=file) as packed:
        content = packed.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(f"it unpacks to more than {most_bytes} bytes")
    return io.BytesIO(content)


@contextmanager
def _refusing(path: Path, form: str) -> Iterator[None]:
    """While a library reads a file of somebody else: whatever it raises means that the file is another than it says."""
    try:
        yield
    except NotATable:
        raise
    except Exception as error:
        why = f"it is not {form}: {' '.join(str(error).split()) or repr(error)}"
        raise NotATable(f"the file {str(path)!r}", why, "Check the file.") from error


def canonical(name: object) -> str | None:
    """The meaning of a column's name; None where it has none here."""
    return _MEANINGS.get(str(name).strip().lower().replace(" ", "_").replace("-", "_"))


def by_meaning(names: Iterable[object]) -> dict[str, object]:
    """The column of each meaning that is there; two columns of one meaning are an error."""
    found: dict[str, object] = {}
    for name in names:
        meaning = canonical(name)
        if meaning is None:
            continue
        if meaning in found:
            raise DataError(
                f"columns {str(found[meaning])!r} and {str(name)!r}",
                f"both mean {meaning!r}",
                "Rename or drop one of them.",
            )
        found[meaning] = name
    return found


def require_column(names: Iterable[object], name: str, meaning: str) -> None:
    """Refuses a frame without a column of that name."""
    known = [str(existing) for existing in names]
    if name not in known:
        raise NoSuchColumn(f"column {name!r} ({meaning})", "the data has no such column", nearest(name, known))


def flat(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with index levels that mean something as columns."""
    import pandas as pd

    levels = [canonical(name) for name in frame.index.names if name is not None]
    if "timestamp" in levels or "asset" in levels:
        return frame.reset_index()
    if isinstance(frame.index, pd.DatetimeIndex) and "timestamp" not in map(canonical, frame.columns):
        return frame.rename_axis("timestamp").reset_index()
    return frame


def utc_of(column: pd.Series, name: str) -> Array:
    """Moments of a column in UTC, datetime64[ns]; moments without a zone are UTC already.

    Moments of more than one zone, or with and without one, are refused: nobody can tell which of them is meant.
    """
    import pandas as pd

    if pd.api.types.is_string_dtype(column):
        # A table of many assets says each moment many times, and reading text is slow. Moments that are no text may be
        # equal in two zones. A mistake is looked for again among all rows, so that the error names the first.
        codes, different = pd.factorize(column)
        if len(different) <= len(column) // 2 and (codes >= 0).all():
            try:
                moments = _utc(pd.Series(different, name=column.name), name)
                return np.asarray(moments[codes])
            except DataError:
                return _utc(column, name)
    return _utc(column, name)


def _utc(column: pd.Series, name: str) -> Array:
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column.dtype):
        raise DataError(
            f"column {name!r}",
            f"its type is {column.dtype}, and a number is not a moment",
            "Convert it, such as pandas.to_datetime(column, unit='s').",
        )
    if not pd.api.types.is_datetime64_any_dtype(column.dtype):
        _refuse_mixed_zones(column, name)
        parsed = pd.to_datetime(column, format="ISO8601", utc=True, errors="coerce")
        bad = np.flatnonzero((parsed.isna() & column.notna()).to_numpy())
        if len(bad):
            raise DataError(
                f"{place_of(column.index, bad[0])}, column {name!r}",
                f"{column.iloc[bad[0]]!r} is not a date in ISO form",
                "Write it as 2017-06-30, or convert the column with pandas.to_datetime.",
            )
        column = parsed
    missing = np.flatnonzero(column.isna().to_numpy())
    if len(missing):
        place = place_of(column.index, missing[0])
        raise DataError(f"{place}, column {name!r}", "the moment is missing", "Leave the row out.")
    if column.dt.tz is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    return np.asarray(column.to_numpy(), dtype="datetime64[ns]")


def _refuse_mixed_zones(column: pd.Series, name: str) -> None:
    if len(column) == 0:
        return
    index, column = column.index, column.reset_index(drop=True)  # a line of a wide file is that of several rows
    text = column.map(lambda value: isinstance(value, str))
    zones = column.map(lambda value: str(getattr(value, "tzinfo", None) or ""))
    if text.any():
        written = column[text]
        timed = written.str.contains(":", regex=False)
        zones = zones.astype(object)
        zones[text] = ""
        zones.loc[written.index[timed]] = written[timed].str.extract(_ZONE, expand=False).fillna("")
    first, other = zones.iloc[0], zones[(zones != zones.iloc[0]) & column.notna()]
    if len(other):
        row = int(np.flatnonzero((zones != first).to_numpy())[0])
        raise DataError(
            f"{place_of(index, row)}, column {name!r}",
            f"mixed time zones: {column.iloc[row]!s} has {zones.iloc[row] or 'none'}, the first row {first or 'none'}",
            "Convert all to UTC first, such as pandas.to_datetime(column, utc=True).",
        )


def numbers_of(column: pd.Series, name: str) -> Array:
    """Numbers of a column, float64; empty is NaN."""
    import pandas as pd

    if pd.api.types.is_bool_dtype(column.dtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        raise DataError(f"column {name!r}", f"its type is {column.dtype}, not a number", "Convert it.")
    values = pd.to_numeric(column, errors="coerce")
    bad = np.flatnonzero((values.isna() & column.notna()).to_numpy())
    if len(bad):
        what, value = f"{place_of(column.index, bad[0])}, column {name!r}", column.iloc[bad[0]]
        raise DataError(what, f"{value!r} is not a number", decimal_comma(value) or "Mend it.")
    return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))


def has_decimal_comma(value: object) -> bool:
    """Whether a cell is a number with a decimal comma."""
    return isinstance(value, str) and re.fullmatch(_NUMBER.format(","), value) is not None


def decimal_comma(value: object) -> str:
    """What helps where a cell is a number with a decimal comma; empty where it is none."""
    return (
        "Where a comma is the decimal sign, set the parameter decimal of csv: ',' (rl data check: --decimal ,)."
        if has_decimal_comma(value)
        else ""
    )


def flags_of(column: pd.Series, name: str) -> Array:
    """Flags of a column: true and false, or 1 and 0."""
    import pandas as pd

    if pd.api.types.is_bool_dtype(column.dtype) and not column.isna().any():
        return np.asarray(column.to_numpy(), dtype=np.bool_)
    flags = column.astype(str).str.lower().map(_FLAGS)
    bad = np.flatnonzero(flags.isna().to_numpy())
    if len(bad):
        raise DataError(
            f"{place_of(column.index, bad[0])}, column {name!r}",
            f"{column.iloc[bad[0]]!r} is neither true nor false",
            "Mend it.",
        )
    return np.asarray(flags.to_numpy(), dtype=np.bool_)
