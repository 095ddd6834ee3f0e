"""An account from a file: CSV with a row per symbol, or JSON."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import fields
from io import StringIO
from pathlib import Path

from alphaswarm_rl.core.contracts import CASH
from alphaswarm_rl.core.errors import OrderError, nearest
from alphaswarm_rl.core.files import UnfitFile, read_regular
from alphaswarm_rl.core.json import load_json
from alphaswarm_rl.inference.account import Account

#: A file of positions is small; more is a mistake.
_MOST_BYTES = 16 * 2**20
_COLUMNS = ("symbol", "quantity", "average_cost")
#: Fields of an account that are one number.
_NUMBERS = ("peak", "value_before", "initial_cash")
#: And those that are one number per symbol, beside the positions.
_BY_SYMBOL = ("average_cost", "next_open")


def read_account(file: Path, cash: float | None = None) -> Account:
    """The account of a file.

    A CSV file has the columns symbol, quantity and, where it is known, average_cost; the row of the symbol CASH has the
    money. A JSON file is a mapping from symbols to quantities, CASH among them, or one with the fields of `Account`.

    Args:
        file: The file.
        cash: The money, of a file that does not say it.
    """
    file = file.expanduser()
    try:
        text = read_regular(file, most_bytes=_MOST_BYTES).decode("utf-8-sig")
    except FileNotFoundError as error:
        raise OrderError(f"the file {str(file)!r}", "it is not there", "Check the path.") from error
    except (UnfitFile, UnicodeDecodeError) as error:
        raise OrderError(f"the file {str(file)!r}", str(error), "Give a text file of positions.") from error
    name = file.name.lower()
    if name.endswith(".json"):
        found = _of_json(file, text)
    elif name.endswith(".csv"):
        found = _of_csv(file, text)
    else:
        raise OrderError(f"the file {str(file)!r}", "its name says no form that is read", "Known: .csv, .json.")
    if (found.get("cash") is None) == (cash is None):
        why = "it says no cash" if cash is None else "it says the cash, and so does --cash"
        raise OrderError(f"the file {str(file)!r}", why, f"Say it once: a row {CASH}, or --cash.")
    if cash is not None:
        found["cash"] = cash
    return Account(**found)  # type: ignore[arg-type]


def _of_csv(file: Path, text: str) -> dict[str, object]:
    rows = csv.DictReader(StringIO(text))
    names = [name.strip().lower() for name in rows.fieldnames or ()]
    for column in _COLUMNS[:2]:
        if column not in names:
            raise OrderError(
                f"column {column!r} of {str(file)!r}", "it is not there", f"Name it so: {', '.join(_COLUMNS)}."
            )
    for name in names:
        if name not in _COLUMNS:
            raise OrderError(f"column {name!r} of {str(file)!r}", "no such column is read", nearest(name, _COLUMNS))
    positions: dict[str, float] = {}
    costs: dict[str, float] = {}
    for number, row in enumerate(rows, start=2):
        what = f"line {number} of {str(file)!r}"
        if None in row:
            raise OrderError(what, f"it has more than {len(names)} cells", "Mend it.")
        cells = {name: (cell or "").strip() for name, cell in zip(names, row.values(), strict=True)}
        symbol = cells["symbol"]
        if not symbol:
            raise OrderError(what, "it names no symbol", "Name one, or leave the line out.")
        if symbol in positions:
            raise OrderError(what, f"the symbol {symbol!r} is there twice", "Keep one of them.")
        positions[symbol] = _number(cells["quantity"], f"{what}, the quantity of {symbol!r}")
        if cells.get("average_cost"):
            costs[symbol] = _number(cells["average_cost"], f"{what}, the average cost of {symbol!r}")
    return {"cash": positions.pop(CASH, None), "positions": positions, "average_cost": costs or None}


def _of_json(file: Path, text: str) -> dict[str, object]:
    try:
        data = load_json(text)
    except ValueError as error:
        raise OrderError(f"the file {str(file)!r}", f"it is no JSON: {error}", "Mend it.") from error
    if not isinstance(data, dict):
        raise OrderError(f"the file {str(file)!r}", "it is no mapping", "Write quantities by symbol.")
    what = f"{str(file)!r}"
    if "positions" not in data:
        positions = _numbers(data, what)
        return {"cash": positions.pop(CASH, None), "positions": positions}
    known = [field.name for field in fields(Account)]
    for name in data:
        if name not in known:
            raise OrderError(f"{name!r} of {what}", "an account has no such field", nearest(name, known))
    found: dict[str, object] = {"positions": _numbers(data["positions"], f"positions of {what}"), "cash": None}
    if data.get("cash") is not None:
        found["cash"] = _number(data["cash"], f"cash of {what}")
    for name in _BY_SYMBOL:
        if data.get(name) is not None:
            found[name] = _numbers(data[name], f"{name} of {what}")
    for name in _NUMBERS:
        if data.get(name) is not None:
            found[name] = _number(data[name], f"{name} of {what}")
    if data.get("bars_left") is not None:
        left = _number(data["bars_left"], f"bars_left of {what}")
        if left != int(left):
            raise OrderError(f"bars_left of {what}", f"it is {left}", "Give a whole number.")
        found["bars_left"] = int(left)
    return found


def _numbers(values: object, what: str) -> dict[str, float]:
    if not isinstance(values, Mapping):
        raise OrderError(what, "it is no mapping", "Write numbers by symbol.")
    return {str(symbol): _number(value, f"{symbol!r} in {what}") for symbol, value in values.items()}


def _number(value: object, what: str) -> float:
    """A finite number."""
    number = math.nan
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = float(value)
        except ValueError as error:
            raise OrderError(what, f"it is {value!r}, no number", "Give a number.") from error
    if not math.isfinite(number):
        raise OrderError(what, f"it is {value!r}, no finite number", "Give one.")
    return number
