"""`.pt` files of PyTorch, mapped into memory without torch and without running code.

The file is a zip archive: `data.pkl` describes the tensors, and uncompressed entries contain their storages. The pickle
is read by a machine that knows the functions of a plain tensor and no others.
"""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from storage.errors import Problem, StoreError
from storage.feature_files.content import ZIP, Header, check_begin, checked, chosen, other_kind, parsing

_BFLOAT16 = "bfloat16"
_STORAGES = {
    "DoubleStorage": "f8",
    "FloatStorage": "f4",
    "HalfStorage": "f2",
    "BFloat16Storage": _BFLOAT16,
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ShortStorage": "i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "b1",
}
"""Classes of storages of real numbers, and NumPy's names of their dtypes."""
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_MOST_PICKLE_BYTES = 64 * 2**20
_INSTRUCTIONS = (
    *(pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK, pickle.GLOBAL, pickle.STACK_GLOBAL, pickle.REDUCE),
    *(pickle.BINPERSID, pickle.BINPUT, pickle.LONG_BINPUT, pickle.MEMOIZE, pickle.BINGET, pickle.LONG_BINGET),
    *(pickle.EMPTY_DICT, pickle.SETITEM, pickle.SETITEMS, pickle.EMPTY_LIST, pickle.APPEND, pickle.APPENDS),
    *(pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.NONE, pickle.NEWTRUE),
    *(pickle.NEWFALSE, pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1, pickle.BINFLOAT),
    *(pickle.BINUNICODE, pickle.SHORT_BINUNICODE),
)
"""Instructions of a pickle of tensors, beside BUILD."""


@dataclass(frozen=True, slots=True)
class _Storage:
    """Values in an entry of the archive: its name, the dtype and the number of values."""

    entry: str
    dtype: str
    n_values: int


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A view of a storage; offset and strides in values."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype as it is read: float32 for bfloat16, which NumPy does not have."""
        return np.dtype("f4" if self.storage.dtype == _BFLOAT16 else self.storage.dtype)


def header(path: Path, key: str | None) -> Header:
    """Returns shape and dtype without reading the values; see `array`."""
    check_begin(path, ZIP)
    with parsing(path), zipfile.ZipFile(path) as archive:
        tensor = _tensor(archive, path, key)
        return checked(path, Header(tensor.shape, tensor.dtype))


def array(path: Path, key: str | None) -> NDArray[Any]:
    """Opens a tensor, mapped and read-only; bfloat16 is read as float32, which represents its values exactly.

    Args:
        path: the file.
        key: name of the tensor in a file with a dict of tensors; None if the file contains one tensor.

    Raises:
        StoreError: the file cannot be read or is damaged, the tensor is not found, or the file contains something else
            than plain tensors of real numbers.
    """
    check_begin(path, ZIP)
    with parsing(path), zipfile.ZipFile(path) as archive:
        tensor = _tensor(archive, path, key)
        checked(path, Header(tensor.shape, tensor.dtype))
        values = _mapped(archive, path, tensor.storage)
        strides = tuple(stride * values.itemsize for stride in tensor.strides)
        view = np.lib.stride_tricks.as_strided(values[tensor.offset :], tensor.shape, strides, writeable=False)
    if tensor.storage.dtype == _BFLOAT16:
        return (view.astype(np.uint32) << 16).view(np.float32)
    return view


def _tensor(archive: zipfile.ZipFile, path: Path, key: str | None) -> _Tensor:
    names = [name for name in archive.namelist() if name.count("/") == 1 and name.endswith("/data.pkl")]
    if not names:
        raise StoreError(other_kind(path, ZIP))
    (name,) = names
    if archive.getinfo(name).file_size > _MOST_PICKLE_BYTES:
        raise ValueError(f"{name} is too large")
    value = _Unpickler(archive.read(name), name.removesuffix("data.pkl"), path).load()
    if isinstance(value, _Tensor):
        return value
    if not isinstance(value, dict):
        _refuse(path, type(value).__name__)
    tensors = {str(name): tensor for name, tensor in value.items() if isinstance(tensor, _Tensor)}
    return tensors[chosen(path, list(tensors), key)]


def _mapped(archive: zipfile.ZipFile, path: Path, storage: _Storage) -> NDArray[Any]:
    """Maps the values of an entry.

    Raises:
        ValueError: the entry is compressed, or does not contain as many values.
    """
    entry = archive.getinfo(storage.entry)
    kind = np.dtype("u2" if storage.dtype == _BFLOAT16 else storage.dtype)
    byteorder = storage.entry.split("/")[0] + "/byteorder"
    if byteorder in archive.namelist():
        with archive.open(byteorder) as file:
            kind = kind.newbyteorder(">" if file.read(3) == b"big" else "<")
    with path.open("rb") as raw:
        raw.seek(entry.header_offset)
        local = _LOCAL_HEADER.unpack(raw.read(_LOCAL_HEADER.size))
    begin = entry.header_offset + _LOCAL_HEADER.size + local[-2] + local[-1]
    size = storage.n_values * kind.itemsize
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size < size or begin + size > path.stat().st_size:
        raise ValueError(f"{storage.entry} does not contain {storage.n_values} uncompressed values")
    if not size:
        return np.empty(0, kind)
    return np.asarray(np.memmap(path, kind, "r", begin, (storage.n_values,)))


def _refuse(path: Path, found: str) -> NoReturn:
    message = f"contains {found}, expected a plain tensor of real numbers, or a dict of such tensors"
    hint = "save the tensor with torch.save(tensor.detach().cpu().clone(), path)"
    raise StoreError(Problem(rule="type", place=str(path), value=found, message=message, hint=hint))


class _Unpickler(pickle._Unpickler):  # the one in Python: the one in C reserves as much memory as a pickle asks for
    """Reads tensors as values, and refuses every other object by its name."""

    dispatch: ClassVar[dict[int, Any]] = {code[0]: pickle._Unpickler.dispatch[code[0]] for code in _INSTRUCTIONS}

    def load_build(self: Any) -> None:
        """Drops the attributes of a dict, such as the version of a module."""
        self.stack.pop()

    def load_setitem(self: Any) -> None:
        """Adds an item to a dict; a key that is no name or number could take for ever to hash."""
        value, key = self.stack.pop(), self.stack.pop()
        if not isinstance(key, str | int):
            raise ValueError("a key that is neither a name nor a number")
        self.stack[-1][key] = value

    def load_setitems(self: Any) -> None:
        """Adds several items to a dict."""
        items = self.pop_mark()
        for key, value in zip(items[::2], items[1::2], strict=True):
            self.stack += [key, value]
            self.load_setitem()

    dispatch[pickle.BUILD[0]] = load_build
    dispatch[pickle.SETITEM[0]] = load_setitem
    dispatch[pickle.SETITEMS[0]] = load_setitems

    def __init__(self, content: bytes, folder: str, path: Path) -> None:
        super().__init__(io.BytesIO(content))
        self.folder, self.path = folder, path

    def find_class(self, module: str, name: str) -> Any:
        """Returns what stands for a function or class of a plain tensor."""
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        known = {
            ("collections", "OrderedDict"): _empty_dict,
            ("torch._utils", "_rebuild_tensor_v2"): self._tensor,
            ("torch._utils", "_rebuild_parameter"): _data_of_parameter,
        }
        if (module, name) not in known:
            _refuse(self.path, f"{module}.{name}")
        return known[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        """Returns the storage of a tensor."""
        _, dtype, entry, _, n_values = pid
        if dtype not in _STORAGES.values() or not isinstance(entry, str) or not isinstance(n_values, int):
            raise ValueError("a storage without dtype, name or size")
        return _Storage(f"{self.folder}data/{entry}", dtype, n_values)

    def _tensor(
        self, storage: _Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *others: Any
    ) -> _Tensor:
        """Returns a tensor within its storage; `others` are its gradient, its hooks, and whether it is negated."""
        if others[2:] not in ((), (None,), ({},)):
            _refuse(self.path, "a tensor that is a negated or conjugated view")
        numbers = (offset, *shape, *strides)
        if len(shape) != len(strides) or not all(isinstance(number, int) and number >= 0 for number in numbers):
            raise ValueError("a tensor with an invalid shape")
        last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
        if offset > storage.n_values or (0 not in shape and last >= storage.n_values):
            raise ValueError("a tensor outside its storage")
        return _Tensor(storage, offset, tuple(shape), tuple(strides))


def _empty_dict() -> dict[object, object]:
    return {}


def _data_of_parameter(data: _Tensor, *others: Any) -> _Tensor:
    return data
