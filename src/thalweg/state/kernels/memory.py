"""Memory by address: Numba compiles lists of arrays poorly, so kernels get the addresses of stems' arrays."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import int64, njit, types
from numba.extending import intrinsic


def _loads(bits: int) -> Any:
    """Reads the integer of `bits` bits at an address."""

    def load(context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            loaded = builder.load(builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer()))
            return loaded if bits == 64 else builder.sext(loaded, ir.IntType(64))

        return int64(int64), generate

    return intrinsic(load)


def _stores(bits: int) -> Any:
    """Writes the lowest `bits` bits of an integer to an address."""

    def store(context: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind, value = ir.IntType(bits), arguments[1]
            value = value if bits == 64 else builder.trunc(value, kind)
            builder.store(value, builder.inttoptr(arguments[0], kind.as_pointer()))
            return context.get_dummy_value()

        return types.void(int64, int64), generate

    return intrinsic(store)


def _copies(context: Any, target: Any, source: Any) -> Any:
    """Copies two integers from one address to another."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, source = (builder.inttoptr(a, ir.VectorType(ir.IntType(64), 2).as_pointer()) for a in arguments)
        builder.store(builder.load(source, align=8), target, align=8)
        return context.get_dummy_value()

    return types.void(int64, int64), generate


def _ask_for(context: Any, address: Any) -> Any:
    """Prefetches an address without waiting. Any address is safe."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch.p0", (), kind)
        read, near, data = number(0), number(3), number(1)
        builder.call(function, [builder.inttoptr(arguments[0], pointer), read, near, data])
        return context.get_dummy_value()

    return types.void(int64), generate


load64, load32, load16, load8 = (_loads(bits) for bits in (64, 32, 16, 8))
store64, store32, store16, store8 = (_stores(bits) for bits in (64, 32, 16, 8))
copy_two: Any = intrinsic(_copies)
prefetch: Any = intrinsic(_ask_for)


@njit(inline="always")
def copy(target: int, source: int, width: int) -> None:
    """Copy a row of integers by address, which avoids Numba's check for negative indices."""
    for c in range(0, width - 1, 2):
        copy_two(target + 8 * c, source + 8 * c)
    if width & 1:
        store64(target + 8 * (width - 1), load64(source + 8 * (width - 1)))
