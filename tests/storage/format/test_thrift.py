import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.format.thrift import Value, parse, serialized

BOOLEAN, BYTE, INTEGER, DOUBLE, BINARY, LIST, STRUCT = 1, 3, 6, 7, 8, 9, 12

scalars = {
    BYTE: st.integers(0, 255),
    INTEGER: st.integers(-(2**62), 2**62),
    DOUBLE: st.binary(min_size=8, max_size=8),
    BINARY: st.binary(max_size=300),
}
leaves = st.sampled_from(list(scalars)).flatmap(lambda kind: scalars[kind].map(lambda content: Value(kind, content)))


def lists(values):
    same = st.sampled_from([BYTE, INTEGER, DOUBLE, BINARY])
    of_one_kind = same.flatmap(lambda kind: st.lists(scalars[kind].map(lambda each: Value(kind, each)), max_size=20))
    return of_one_kind.filter(bool).map(lambda content: Value(LIST, content)) | structs(values)


def structs(values):
    booleans = st.booleans().map(lambda each: Value(BOOLEAN if each else BOOLEAN + 1, each))
    numbered = st.dictionaries(st.integers(1, 200), values | booleans, max_size=6)
    return numbered.map(lambda fields: Value(STRUCT, dict(sorted(fields.items()))))


@given(structs(st.recursive(leaves, lists, max_leaves=12)))
def test_a_struct_is_read_as_it_was_written(value):
    data = serialized(value)
    assert parse(data + b"\xff") == (value, len(data))


def test_the_bytes_are_those_of_the_specification():
    value = Value(STRUCT, {1: Value(5, -1), 3: Value(BOOLEAN, True), 20: Value(BINARY, b"ab")})
    assert serialized(value) == bytes([0x15, 0x01, 0x21, 0x08, 0x28, 0x02]) + b"ab\0"


@pytest.mark.parametrize("data", [b"", b"\x15", b"\x18\x05ab", b"\x1d\x00", b"\x15" + b"\xff" * 11])
def test_other_bytes_are_refused(data):
    with pytest.raises(ValueError, match="Thrift"):
        parse(data)
