"""Numba as this package uses it: its compiled code in the user's cache folder, and prefetches of table rows.

Numba's own place for compiled code is beside the source, which may be read-only and belongs to nobody's cache.
`NUMBA_CACHE_DIR` goes before.

Environments that stand at different bars of a long panel read rows that no cache holds. A row that is prefetched a few
environments ahead is at hand when its turn comes.
"""

from __future__ import annotations

import os
from pathlib import Path

import numba
from llvmlite import ir
from numba import njit as njit
from numba import prange as prange
from numba.core import cgutils, types
from numba.extending import intrinsic

#: How many environments ahead a row is prefetched.
AHEAD = 8
#: Bytes of a cache line.
_LINE = 64


def cache_folder() -> Path | None:
    """Where compiled code is kept; None where Numba must find a place itself."""
    given = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = (Path(given) if given else Path.home() / ".cache") / "alphaswarm-rl" / "numba"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # a user without a home, or whose home cannot be written to
        return None
    return folder if os.access(folder, os.W_OK) else None


if not numba.config.CACHE_DIR and (found := cache_folder()) is not None:
    numba.config.CACHE_DIR = str(found)


@intrinsic
def _prefetch(typing, array, row, offset):
    """The processor's hint for the byte at `offset` in row `row` of a C-contiguous array; changes nothing."""
    signature = types.void(array, types.intp, types.intp)

    def codegen(context, builder, _, arguments):
        layout = context.make_array(array)(context, builder, arguments[0])
        stride = cgutils.unpack_tuple(builder, layout.strides, array.ndim)[0]
        start = builder.ptrtoint(layout.data, stride.type)
        byte = builder.add(builder.add(start, builder.mul(stride, arguments[1])), arguments[2])
        pointer = builder.inttoptr(byte, ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        name = "llvm.prefetch.p0i8" if "*" in str(pointer.type) else "llvm.prefetch.p0"
        hint = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [pointer.type, number, number, number]), name
        )
        # To be read, to be kept in every cache, data.
        builder.call(hint, [pointer, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return signature, codegen


@njit(inline="always")
def prefetch_row(table, row):
    """Prefetches one row of a table (T, C)."""
    size = table.shape[1] * table.itemsize
    for offset in range(0, size, _LINE):
        _prefetch(table, row, offset)
    # A row that starts inside a line ends in one more.
    _prefetch(table, row, size - 1)
