"""Reads and writes values in the compact protocol of Thrift, in which Parquet stores page headers and footers.

Source: Thrift compact protocol specification. A struct is a dict from the number of a field to its `Value`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

Buffer = bytes | memoryview

_TRUE, _FALSE, _BYTE, _I16, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 4, 6, 7, 8, 9, 10, 12
_INTEGERS = range(_I16, _I64 + 1)
_LISTS = (_LIST, _SET)
_LONG_LIST = 15


@dataclass(frozen=True, slots=True)
class Value:
    """A value with its type.

    Attributes:
        kind: type of the compact protocol; both kinds of a boolean in a list are those of its list.
        content: bool, int, bytes (also of a double), list of values or struct.
    """

    kind: int
    content: Any

    def __getitem__(self, key: int) -> Value:
        """Returns a field of a struct, or an element of a list."""
        found = self.content[key]
        if not isinstance(found, Value):
            raise TypeError("expected a struct or a list")
        return found

    @property
    def number(self) -> int:
        """The integer."""
        if not isinstance(self.content, int):
            raise TypeError("expected a number")
        return self.content

    def updated(self, fields: dict[int, int | Value]) -> Value:
        """Returns a copy of a struct with other values, or other integers, in some of its fields."""
        values = {
            key: new if isinstance(new, Value) else replace(self[key], content=new) for key, new in fields.items()
        }
        return replace(self, content=self.content | values)


def parse(data: Buffer) -> tuple[Value, int]:
    """Reads the struct at the beginning of `data`; returns it and its size.

    Raises:
        ValueError: the bytes are not a struct.
    """
    reader = _Reader(data)
    try:
        return reader.value(_STRUCT), reader.position
    except (IndexError, KeyError, RecursionError) as error:
        raise ValueError(f"invalid Thrift struct: {error!r}") from error


class _Reader:
    def __init__(self, data: Buffer) -> None:
        self.data = data
        self.position = 0

    def byte(self) -> int:
        value = self.data[self.position]
        self.position += 1
        return value

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise IndexError("number of more than 64 bits")

    def zigzag(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def struct(self) -> dict[int, Value]:
        fields: dict[int, Value] = {}
        field = 0
        while head := self.byte():
            field = field + (head >> 4) if head >> 4 else self.zigzag()
            kind = head & 0x0F
            fields[field] = Value(kind, kind == _TRUE) if kind in (_TRUE, _FALSE) else self.value(kind)
        return fields

    def value(self, kind: int) -> Value:
        if kind in _INTEGERS:
            return Value(kind, self.zigzag())
        if kind == _STRUCT:
            return Value(kind, self.struct())
        if kind in _LISTS:
            return Value(kind, self.list())
        if kind in (_TRUE, _FALSE, _BYTE):
            return Value(kind, self.byte())
        if kind in (_DOUBLE, _BINARY):
            return Value(kind, self.bytes(8 if kind == _DOUBLE else self.varint()))
        raise KeyError(f"type {kind}")

    def list(self) -> list[Value]:
        head = self.byte()
        count = head >> 4 if head >> 4 != _LONG_LIST else self.varint()
        if count > len(self.data) - self.position:
            raise IndexError("list longer than the data")
        return [self.value(head & 0x0F) for _ in range(count)]

    def bytes(self, count: int) -> bytes:
        data = bytes(self.data[self.position : self.position + count])
        if len(data) != count:
            raise IndexError("truncated data")
        self.position += count
        return data


def serialized(value: Value) -> bytes:
    """Returns the bytes of a value; those of `parse(data)` are `data`."""
    content, kind = value.content, value.kind
    if kind in _INTEGERS:
        return _varint((content << 1) ^ (content >> 63))
    if kind == _STRUCT:
        return _struct(content)
    if kind in _LISTS:
        element = content[0].kind if content else _STRUCT
        n, pieces = len(content), [serialized(each) for each in content]
        head = bytes([n << 4 | element]) if n < _LONG_LIST else bytes([_LONG_LIST << 4 | element]) + _varint(n)
        return head + b"".join(pieces)
    if kind == _BINARY:
        return _varint(len(content)) + bytes(content)
    return bytes(content) if kind == _DOUBLE else bytes([content])


def _struct(fields: dict[int, Value]) -> bytes:
    pieces, last = [], 0
    for field, value in fields.items():
        boolean = isinstance(value.content, bool)
        kind = (_TRUE if value.content else _FALSE) if boolean else value.kind
        step = field - last
        pieces.append(bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + _varint(field << 1))
        pieces.append(b"" if boolean else serialized(value))
        last = field
    return b"".join(pieces) + b"\0"


def _varint(value: int) -> bytes:
    pieces = bytearray()
    while value > 0x7F:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    pieces.append(value)
    return bytes(pieces)
