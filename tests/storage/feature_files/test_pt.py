"""Feature files of PyTorch: read without torch, and without running code."""

import io
import os
import pickle
import pickletools
import subprocess
import sys
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
import torch

from storage.feature_files.files import open_features, read_header
from tests.helpers.refusals import refused

X = torch.arange(60, dtype=torch.float32).reshape(10, 6) / 7
DTYPES = [torch.float16, torch.float32, torch.float64, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]


def saved(tmp_path, value, **options):
    torch.save(value, tmp_path / "a.pt", **options)
    return tmp_path / "a.pt"


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bool])
def test_every_dtype_of_real_numbers_that_numpy_has_is_kept(tmp_path, dtype):
    tensor = X.to(dtype)
    path = saved(tmp_path, tensor)
    assert read_header(path).dtype == tensor.numpy().dtype
    assert np.array_equal(open_features(path), tensor.numpy())
    assert open_features(path).dtype == tensor.numpy().dtype


def test_bfloat16_becomes_float32_exactly(tmp_path):
    tensor = torch.randn(50, 8, generator=torch.Generator().manual_seed(0)).bfloat16()[::2].T
    path = saved(tmp_path, tensor)
    assert read_header(path).dtype == np.float32
    assert np.array_equal(open_features(path), tensor.float().numpy())


@pytest.mark.parametrize(
    "view",
    [X.T, X[2:7, 1:4], X[::3], X[:, 3:4].expand(10, 5), X[4:4], X.reshape(2, 5, 6).permute(2, 0, 1), X[3, 2]],
    ids=["transposed", "part", "strided", "expanded", "empty", "three axes", "scalar"],
)
def test_views_are_read_as_they_are(tmp_path, view):
    path = saved(tmp_path, view)
    assert read_header(path).shape == tuple(view.shape)
    assert np.array_equal(open_features(path), view.numpy())


def test_a_view_of_a_large_storage_is_mapped(tmp_path):
    large = torch.zeros(1000, 1000)
    large[500, :4] = torch.tensor([1.0, 2, 3, 4])
    read = open_features(saved(tmp_path, large[500:502, :4]))
    assert read.tolist() == [[1, 2, 3, 4], [0, 0, 0, 0]]
    assert not read.flags.writeable
    while not isinstance(read, np.memmap):
        read = read.base
    assert read.size == 10**6


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_tensors_in_a_dict_share_a_storage(tmp_path, protocol):
    path = saved(tmp_path, {"rgb": X, "flow": X[:, 2:], "epoch": 3, "names": ["a"]}, pickle_protocol=protocol)
    assert np.array_equal(open_features(path, "rgb"), X.numpy())
    assert np.array_equal(open_features(path, "flow"), X[:, 2:].numpy())
    with refused("missing", str(path), ["rgb", "flow"], n=1):
        open_features(path)


def test_parameters_and_the_state_of_a_module_are_dicts_of_tensors(tmp_path):
    module = torch.nn.Linear(2, 3)
    assert open_features(saved(tmp_path, module.state_dict()), "weight").shape == (3, 2)
    assert np.array_equal(open_features(saved(tmp_path, module.bias)), module.bias.detach().numpy())
    assert open_features(saved(tmp_path, OrderedDict(x=X))).shape == (10, 6)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (X.numpy(), "_reconstruct"),
        ([X, X], "list"),
        (3, "int"),
        (X.to_sparse(), "_rebuild_sparse_tensor"),
        (X.to(torch.complex64), "torch.ComplexFloatStorage"),
        (X.to(torch.uint16), "_rebuild_tensor_v3"),
        (torch.nn.Linear(2, 2), "Linear"),
        (torch.imag(torch.conj(torch.zeros(2, 2, dtype=torch.complex64))), "negated"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_what_is_not_a_plain_tensor_is_refused_by_name(tmp_path, value, found):
    with refused("type", "a.pt", n=1) as refusal:
        open_features(saved(tmp_path, value))
    assert found in refusal.values[0]
    assert "torch.save" in refusal.problems[0].hint


def test_a_dict_without_tensors_is_refused(tmp_path):
    with refused("missing", "a.pt", n=1):
        open_features(saved(tmp_path, {"epoch": 3}))
    with refused("missing", "a.pt", n=1) as refusal:
        open_features(saved(tmp_path, {"clip": {"features": torch.zeros(3, 2)}}))
    assert "nested" in refusal.problems[0].hint


def test_the_format_before_1_6_is_refused_by_name(tmp_path):
    for value in (X, {"x": X}):
        with refused("type", "a.pt", n=1) as refusal:
            open_features(saved(tmp_path, value, _use_new_zipfile_serialization=False))
        assert "1.6" in refusal.problems[0].message
        assert "torch.save" in refusal.problems[0].hint


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


def archive(path, program, storage=bytes(40), compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("a/data.pkl", program)
        file.writestr("a/data/0", storage)
    return path


def tensor_program(n_values=10, offset=0, shape=(5, 2), strides=(2, 1), entry="0", storage="FloatStorage") -> bytes:
    """The pickle of a tensor with chosen numbers."""

    class Program(pickle.Pickler):
        def persistent_id(self, value):
            return value[1:] if isinstance(value, tuple) and value[:1] == ("persistent",) else None

        def reducer_override(self, value):
            if value is Program:
                found = ("persistent", "storage", getattr(torch, storage), entry, "cpu", n_values)
                arguments = (found, offset, shape, strides, False, OrderedDict())
                return torch._utils._rebuild_tensor_v2, arguments
            return NotImplemented

    file = io.BytesIO()
    Program(file, protocol=2).dump(Program)
    return file.getvalue()


def test_a_hand_made_tensor_is_read(tmp_path):
    path = archive(tmp_path / "a.pt", tensor_program(), np.arange(10, dtype="f4").tobytes())
    assert open_features(path).tolist() == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


def test_values_of_a_big_endian_machine_are_read(tmp_path):
    path = archive(tmp_path / "a.pt", tensor_program(), np.arange(10, dtype=">f4").tobytes())
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("a/byteorder", "big")
    assert open_features(path).tolist() == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]


@pytest.mark.parametrize(
    "numbers",
    [
        {"shape": (5, 3)},
        {"offset": 1},
        {"offset": -1},
        {"strides": (-2, 1)},
        {"strides": (2,)},
        {"shape": (5.0, 2)},
        {"n_values": 11},
        {"n_values": 10**12, "shape": (10**6, 2)},
        {"n_values": "10"},
        {"entry": "../data.pkl"},
        {"entry": "1"},
    ],
    ids=str,
)
def test_a_tensor_outside_its_storage_is_refused(tmp_path, numbers):
    with refused("unreadable", "a.pt", n=1):
        open_features(archive(tmp_path / "a.pt", tensor_program(**numbers)))


def test_a_small_file_with_a_huge_view_is_refused(tmp_path):
    with refused("range", "a.pt", n=1):
        open_features(saved(tmp_path, X[:1, :1].expand(10**6, 10**4)))
    with refused("unreadable", "a.pt", n=1):
        open_features(archive(tmp_path / "a.pt", tensor_program(), compression=zipfile.ZIP_DEFLATED))


GLOBAL = b"cos\nmkdir\n"
SHADOW = b"ctorch._utils\n_rebuild_parameter\n"


DOUBLING = b")" + b"".join(bytes([pickle.BINPUT[0], n, pickle.BINGET[0], n, pickle.TUPLE2[0]]) for n in range(90))
"""A tuple of twice a tuple of twice a tuple ..., which takes for ever to hash and to print."""


@pytest.mark.parametrize(
    ("program", "rule"),
    [
        (pickle.dumps(Bomb(), 0), "type"),
        (pickle.dumps(Bomb(), 2), "type"),
        (pickle.dumps(Bomb(), 5), "type"),
        (b"\x80\x02" + GLOBAL + b".", "type"),
        (b"\x80\x02cbuiltins\neval\n.", "type"),
        (b"\x80\x04\x8c\x0bcollections\x8c\x14OrderedDict.__init__\x93.", "type"),
        (b"\x80\x02" + SHADOW + b"}X\x04\x00\x00\x00codeK\x01sb.", "type"),
        (b"\x80\x02(ios\nmkdir\n.", "unreadable"),
        (b"\x80\x05\x96" + (2**40).to_bytes(8, "little") + b"x.", "unreadable"),
        (b"\x80\x02K\x01r\xff\xff\xff\x7f.", "type"),
        (b"\x80\x02X\xff\xff\xff\x7fx.", "unreadable"),
        (b"\x80\x02\x82\x01.", "unreadable"),
        (b"(" * 10**5 + b"t" * 10**5 + b".", "type"),
        (b"", "unreadable"),
        (b"\x80\x02}" + DOUBLING + b"K\x01s.", "unreadable"),
        (b"\x80\x02}(" + DOUBLING + b"K\x01u.", "unreadable"),
        (b"\x80\x02ccollections\nOrderedDict\n]" + DOUBLING + b"K\x01\x86a\x85R.", "unreadable"),
        (b"\x80\x02(X\x07\x00\x00\x00storagectorch\nFloatStorage\n" + DOUBLING + b"K\x01K\x01tQ.", "unreadable"),
    ],
    ids=range(18),
)
def test_hostile_pickles_do_nothing(tmp_path, monkeypatch, program, rule):
    monkeypatch.chdir(tmp_path)
    with refused(rule, "a.pt", n=1):
        open_features(archive(tmp_path / "a.pt", program))
    assert not (tmp_path / "exploded").exists()
    assert "code" not in dir(sys.modules["storage.feature_files.pt"]._data_of_parameter)


def test_the_programs_of_torch_use_the_known_instructions_only(tmp_path):
    path = saved(tmp_path, {"x": X, "many": [1, 300, 70000, 2**40, 1.5, None, True]}, pickle_protocol=4)
    names = {op.name for op, _, _ in pickletools.genops(zipfile.ZipFile(path).read("a/data.pkl"))}
    assert {"STACK_GLOBAL", "MEMOIZE", "BINPERSID"} <= names
    assert open_features(path).shape == (10, 6)


def test_torch_is_not_imported(tmp_path):
    path = saved(tmp_path, X)
    code = (
        "import sys, pathlib; from storage.feature_files.files import open_features; "
        "assert open_features(pathlib.Path(sys.argv[1])).shape == (10, 6); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
