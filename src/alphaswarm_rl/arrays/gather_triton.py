"""Reads of table rows on an NVIDIA GPU, by Triton kernels that write straight into the observation.

They move most of the bytes of a step. Tables are (T, C), one row per bar; `bar` (n,) holds the row that each
environment stands at; `only` (n,) bool, where it is given, says which environments are written at all. A program
(Triton's thread block) takes `ROWS` environments and `ACROSS` columns of `out`.
"""

# Triton infers the types of jitted code, and annotations would claim what it does not check.
# ruff: noqa: N803  (constants of a compilation are in capitals)
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"

import torch
import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]
import triton.language as tl  # type: ignore[import-not-found,import-untyped,unused-ignore]
from torch import Tensor
from triton import JITFunction  # type: ignore[import-not-found,import-untyped,unused-ignore]

#: Rows that a program goes through: few where all are written, many where few are.
_ROWS, _ROWS_OF_SOME = 4, 32
#: The most of one row that a program moves at once.
_WIDEST = 1024


def take_rows(table: Tensor, bar: Tensor, out: Tensor, only: Tensor | None, *, back: int = 0) -> None:
    """Writes the numbers from row `bar[i] - back` on to `out[i]`, as many as it holds."""
    _launch(_rows_kernel, out, only, table, bar, table.shape[1], back)


def take_columns(table: Tensor, bar: Tensor, columns: Tensor, out: Tensor, only: Tensor | None) -> None:
    """Writes the `columns` of row `bar[i]` to `out[i]`."""
    _launch(_columns_kernel, out, only, table, bar, columns, table.shape[1])


def take_growth(table: Tensor, bar: Tensor, start: Tensor, out: Tensor, only: Tensor | None) -> None:
    """Writes row `bar[i]` over row `start[i]` minus 1 to `out[i]`; 0 where the latter is not positive."""
    _launch(_growth_kernel, out, only, table, bar, start, table.shape[1])


def take_weights(
    positions: Tensor,
    prices: Tensor,
    bar: Tensor,
    value: Tensor,
    out: Tensor,
    only: Tensor | None,
    cash: Tensor | None = None,
) -> None:
    """Writes each position's part of the value to `out`, after that of the cash where it is given; 0 without value."""
    given = (positions, prices, bar, value, value if cash is None else cash, prices.shape[1])
    _launch(_parts_kernel, out, only, *given, CASH=cash is not None)


def _launch(kernel: JITFunction, out: Tensor, only: Tensor | None, *arguments: Tensor | int, **constants: bool) -> None:
    count, width = out.shape
    across = min(triton.next_power_of_2(width), _WIDEST)
    rows = _ROWS if only is None else _ROWS_OF_SOME
    contiguous = [one.contiguous() if isinstance(one, Tensor) else one for one in arguments]
    kernel[(triton.cdiv(count, rows), triton.cdiv(width, across))](
        *contiguous,
        out,
        out.stride(0),
        count,
        width,
        out if only is None else only.view(torch.uint8),
        ROWS=rows,
        ACROSS=across,
        SOME=only is not None,
        **constants,
        num_warps=max(1, min(8, across // 128)),
    )


@triton.jit
def _rows_here(count, only, ROWS: tl.constexpr, SOME: tl.constexpr):
    """How many rows this program goes through: none where none of them is to be written."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    number = tl.minimum(count - tl.program_id(0) * ROWS, ROWS)
    if SOME:
        number = number * tl.max(tl.load(only + rows, mask=rows < count, other=0).to(tl.int32), axis=0)
    return number


@triton.jit
def _is_written(row, only, SOME: tl.constexpr):
    """Whether a row is to be written."""
    written = row >= 0
    if SOME:
        written = tl.load(only + row) != 0
    return written


@triton.jit
def _rows_kernel(
    table, bar, row_width, back, out, stride, count, width, only,
    ROWS: tl.constexpr, ACROSS: tl.constexpr, SOME: tl.constexpr,
):  # fmt: skip
    columns = tl.program_id(1) * ACROSS + tl.arange(0, ACROSS)
    # Four numbers are moved at once where the compiler can see that they go together: up to a multiple of sixteen.
    most = width // 16 * 16
    here = columns < most
    rest = most + tl.arange(0, 16)
    in_rest = (rest < width) & (tl.program_id(1) == 0)
    for index in range(_rows_here(count, only, ROWS, SOME)):
        row = tl.program_id(0).to(tl.int64) * ROWS + index
        if _is_written(row, only, SOME):
            first = table + (tl.load(bar + row) - back) * row_width
            place = out + row * stride
            numbers = tl.load(first + columns, mask=here, other=0.0)
            tl.store(place + columns, numbers.to(out.dtype.element_ty), mask=here)
            numbers = tl.load(first + rest, mask=in_rest, other=0.0)
            tl.store(place + rest, numbers.to(out.dtype.element_ty), mask=in_rest)


@triton.jit
def _columns_kernel(
    table, bar, chosen, row_width, out, stride, count, width, only,
    ROWS: tl.constexpr, ACROSS: tl.constexpr, SOME: tl.constexpr,
):  # fmt: skip
    columns = tl.program_id(1) * ACROSS + tl.arange(0, ACROSS)
    here = columns < width
    place = tl.load(chosen + columns, mask=here, other=0)
    for index in range(_rows_here(count, only, ROWS, SOME)):
        row = tl.program_id(0).to(tl.int64) * ROWS + index
        if _is_written(row, only, SOME):
            numbers = tl.load(table + tl.load(bar + row) * row_width + place, mask=here, other=0.0)
            tl.store(out + row * stride + columns, numbers.to(out.dtype.element_ty), mask=here)


@triton.jit
def _growth_kernel(
    table, bar, start, row_width, out, stride, count, width, only,
    ROWS: tl.constexpr, ACROSS: tl.constexpr, SOME: tl.constexpr,
):  # fmt: skip
    columns = tl.program_id(1) * ACROSS + tl.arange(0, ACROSS)
    here = columns < width
    for index in range(_rows_here(count, only, ROWS, SOME)):
        row = tl.program_id(0).to(tl.int64) * ROWS + index
        if _is_written(row, only, SOME):
            numbers = tl.load(table + tl.load(bar + row) * row_width + columns, mask=here, other=0.0)
            base = tl.load(table + tl.load(start + row) * row_width + columns, mask=here, other=0.0)
            known = base > 0.0
            growth = tl.where(known, numbers / tl.where(known, base, 1.0) - 1.0, 0.0)
            tl.store(out + row * stride + columns, growth.to(out.dtype.element_ty), mask=here)


@triton.jit
def _parts_kernel(
    positions, prices, bar, value_in, cash, row_width, out, stride, count, width, only,
    ROWS: tl.constexpr, ACROSS: tl.constexpr, SOME: tl.constexpr, CASH: tl.constexpr,
):  # fmt: skip
    # Rows are short here: all of a program's at once, so that none waits for the one before.
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    real = rows < count
    if SOME:
        real = real & (tl.load(only + rows, mask=real, other=0) != 0)
    columns = tl.program_id(1) * ACROSS + tl.arange(0, ACROSS)
    here = real[:, None] & (columns < width)[None, :]
    asset, held_here = columns, here
    if CASH:
        asset, held_here = columns - 1, here & (columns > 0)[None, :]
    value = tl.load(value_in + rows, mask=real, other=0.0)
    per_unit = tl.where(value > 0.0, 1.0 / tl.where(value > 0.0, value, 1.0), 0.0)[:, None]
    held = tl.load(positions + rows[:, None] * row_width + asset[None, :], mask=held_here, other=0.0)
    at = tl.load(bar + rows, mask=real, other=0) * row_width
    part = held * tl.load(prices + at[:, None] + asset[None, :], mask=held_here, other=0.0) * per_unit
    if CASH:
        part = tl.where((columns == 0)[None, :], tl.load(cash + rows, mask=real, other=0.0)[:, None] * per_unit, part)
    tl.store(out + rows[:, None] * stride + columns[None, :], part.to(out.dtype.element_ty), mask=here)
