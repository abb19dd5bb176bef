"""`.mat` files of MATLAB up to version 7; version 7.3, which is HDF5, is read by h5py (the optional extra `hdf5`).

The older versions are read here and not by scipy, which crashes on some damaged files and unpacks what a file asks for.
Source: MathWorks, "MAT-File Format" (2025).
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.feature_files import hdf5
from storage.feature_files.content import MATLAB, MATLAB_73, Header, check_begin, checked, chosen, parsing

_CLASSES = ("float64", "float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
"""NumPy's names of the numeric classes, whose numbers begin at 6."""
_MATLAB_CLASSES = (b"double", b"single", *(name.encode() for name in _CLASSES[2:]), b"logical")
_FIRST_CLASS, _LOGICAL, _COMPLEX = 6, 0x200, 0x800
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""Dtypes in which the values of an array may be stored; integers may be stored for doubles."""
_MATRIX, _PACKED, _HEADER_BYTES, _MOST_NAME_BYTES = 14, 15, 128, 2**16
_STORED_4 = ("f8", "f4", "i4", "i2", "u2", "u1")
_VERSION_4 = tuple((10 * kind).to_bytes(4, "little") for kind in range(len(_STORED_4)))
"""First bytes of files of version 4 on today's machines, by the dtype of the first variable."""


def header(path: Path, key: str | None) -> Header:
    """Returns shape and dtype without reading the values; see `array`."""
    if check_begin(path, MATLAB, *_VERSION_4).startswith(MATLAB_73):
        with parsing(path), hdf5.open_file(path) as file:
            found = hdf5.header_of(path, file[chosen(path, _numeric(file), key)])
            return Header(found.shape[::-1], found.dtype)
    with parsing(path):
        return checked(path, _variable(path, key).header)


def array(path: Path, key: str | None) -> NDArray[Any]:
    """Reads a numeric array.

    Args:
        path: the file.
        key: name of the variable; None if the file contains one numeric array.

    Raises:
        StoreError: the file cannot be read or is damaged, the array is not found or too large, or the file has version
            7.3 and h5py is missing.
    """
    if check_begin(path, MATLAB, *_VERSION_4).startswith(MATLAB_73):
        with parsing(path), hdf5.open_file(path) as file:
            return hdf5.values_of(path, file[chosen(path, _numeric(file), key)]).T
    with parsing(path):
        variable = _variable(path, key)
        checked(path, variable.header)
        return variable.read()


def _numeric(file: Any) -> list[str]:
    """Returns the numeric variables of a file of version 7.3."""
    names = [name for name in hdf5.data_sets(file) if "/" not in name]
    return [name for name in names if file[name].attrs.get("MATLAB_class", b"") in _MATLAB_CLASSES]


class _Elements:
    """Reads the elements of a variable one after the other, unpacked if they are compressed.

    Args:
        content: bytes of the variable.
        order: byte order, `<` or `>`.
        packed: whether the bytes are compressed.
    """

    def __init__(self, content: memoryview, order: str, *, packed: bool) -> None:
        self.order = order
        self._content = content
        self._packed = zlib.decompressobj() if packed else None
        self._padding = 0

    def read(self, size: int) -> bytes:
        """Returns the next bytes.

        Raises:
            EOFError: there are fewer.
        """
        if self._packed is None or not size:
            found, self._content = bytes(self._content[:size]), self._content[size:]
        else:
            found = self._packed.decompress(self._content, size)
            self._content = memoryview(self._packed.unconsumed_tail)
        if len(found) < size:
            raise EOFError("a variable ends early")
        return found

    def element(self, most: int) -> tuple[int, bytes]:
        """Returns type and bytes of the next element.

        Raises:
            EOFError: there are fewer bytes.
            ValueError: there are more than `most` bytes.
        """
        self.read(self._padding)
        tag = self.read(8)
        kind, size = struct.unpack(f"{self.order}II", tag)
        if kind >> 16:  # up to four bytes in the tag itself
            kind, size, self._padding = kind & 0xFFFF, kind >> 16, 0
            return kind, tag[4 : 4 + size]
        if size > most:
            raise ValueError(f"an element of {size} bytes instead of at most {most}")
        self._padding = -size % 8
        return kind, self.read(size)

    def finish(self) -> None:
        """Compares the checksum of compressed bytes.

        Raises:
            ValueError: there are more elements.
            zlib.error: the checksum is another one.
        """
        if self._packed is not None:
            self._packed.decompress(self._content, 8)
            if not self._packed.eof:
                raise ValueError("a variable has no end")


@dataclass(frozen=True, slots=True)
class _Variable:
    """A numeric variable; `read` reads its values."""

    name: str
    header: Header
    read: Callable[[], NDArray[Any]]


def _variable(path: Path, key: str | None) -> _Variable:
    content = np.memmap(path, np.uint8, "r").data
    found = _of_version_5(content) if bytes(content[: len(MATLAB)]) == MATLAB else _of_version_4(content)
    variables = {variable.name: variable for variable in found}
    return variables[chosen(path, list(variables), key)]


def _of_version_5(content: memoryview) -> Iterator[_Variable]:
    """Yields the numeric variables of a file of version 5 to 7."""
    order = "<" if bytes(content[126:128]) == b"IM" else ">"
    begin = _HEADER_BYTES
    if len(content) < begin:
        raise EOFError("the file ends early")
    while begin < len(content):
        kind, size = struct.unpack_from(f"{order}II", content, begin)
        begin += 8
        if begin + size > len(content):
            raise EOFError("the file ends early")
        elements = _Elements(content[begin : begin + size], order, packed=kind == _PACKED)
        begin += size
        if kind == _PACKED:
            kind, _ = struct.unpack(f"{order}II", elements.read(8))
        if kind == _MATRIX and (variable := _matrix(elements)):
            yield variable


def _matrix(elements: _Elements) -> _Variable | None:
    """Returns a variable; None if it is something else than an array of numbers."""
    order = elements.order
    flags = struct.unpack(f"{order}II", elements.element(8)[1])[0]
    dimensions = elements.element(_MOST_NAME_BYTES)[1]
    shape = struct.unpack(f"{order}{len(dimensions) // 4}i", dimensions)
    name = elements.element(_MOST_NAME_BYTES)[1].decode(errors="replace")
    index = (flags & 0xFF) - _FIRST_CLASS
    if not 0 <= index < len(_CLASSES):
        return None
    if min(shape) < 0:
        raise ValueError(f"an array of shape {list(shape)}")
    dtype = "bool" if flags & _LOGICAL else "complex128" if flags & _COMPLEX else _CLASSES[index]
    found = Header(shape, np.dtype(dtype))
    return _Variable(name, found, partial(_values, elements, found))


def _values(elements: _Elements, header: Header) -> NDArray[Any]:
    stored, content = elements.element(8 * math.prod(header.shape))
    elements.finish()
    values = np.frombuffer(content, np.dtype(f"{elements.order}{_STORED[stored]}"))
    return values.astype(header.dtype).reshape(header.shape, order="F")


def _of_version_4(content: memoryview) -> Iterator[_Variable]:
    """Yields the numeric variables of a file of version 4, all of which are doubles for MATLAB."""
    begin = 0
    while begin < len(content):
        kind, *shape, imaginary, name_size = struct.unpack_from("<5i", content, begin)
        begin += 20
        stored = np.dtype(f"<{_STORED_4[kind // 10]}")
        size = math.prod(shape) * stored.itemsize * (2 if imaginary else 1)
        name = bytes(content[begin : begin + name_size]).rstrip(b"\0").decode(errors="replace")
        begin += name_size
        if min(*shape, name_size, kind) < 0 or begin + size > len(content):
            raise EOFError("the file ends early")
        if not kind % 10:
            found = Header(tuple(shape), np.dtype("complex128" if imaginary else "float64"))
            yield _Variable(name, found, partial(_values_4, content[begin : begin + size], stored, found))
        begin += size


def _values_4(content: memoryview, stored: np.dtype[Any], header: Header) -> NDArray[Any]:
    return np.frombuffer(content, stored).astype(header.dtype).reshape(header.shape, order="F")
