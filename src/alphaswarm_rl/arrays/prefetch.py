"""Asking the memory for a table's row before it is needed.

Environments that stand at different bars of a long panel read rows that no cache holds. A row asked for a few
environments ahead is there when its turn comes.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from alphaswarm_rl.arrays.jit import njit

#: How many environments ahead.
AHEAD = 8
_LINE = 64


@intrinsic
def _prefetch(typing: Any, array: Any, row: Any, offset: Any) -> Any:
    """The processor's hint for the byte at `offset` in row `row` of a C-contiguous array; changes nothing."""
    signature = types.void(array, types.intp, types.intp)

    def codegen(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
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
def ask_for(table, row):
    """Asks for one row of a table (T, C)."""
    size = table.shape[1] * table.itemsize
    for offset in range(0, size, _LINE):
        _prefetch(table, row, offset)
    # A row that starts inside a line ends in one more.
    _prefetch(table, row, size - 1)
