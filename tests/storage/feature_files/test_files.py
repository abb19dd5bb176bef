"""Feature files of all kinds: their arrays, their headers, and the choice of an array."""

import io
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io

from storage import StoreError
from storage.feature_files import PICKLES, SUFFIXES
from storage.feature_files.files import open_features, read_header
from tests.helpers.refusals import refused

VALUES = np.random.default_rng(0).normal(size=(5, 3))


def write(path: Path, **arrays) -> Path:
    """Writes named arrays as the kind of file that the suffix says; files without names have the first."""
    first = next(iter(arrays.values()))
    if path.suffix == ".npy":
        np.save(path, first)
    elif path.suffix == ".npz":
        np.savez(path, **arrays)
    elif path.suffix == ".csv":
        np.savetxt(path, first, delimiter=",", fmt="%.17g")
    elif path.suffix == ".mat":
        scipy.io.savemat(path, arrays)
    elif path.suffix in (".h5", ".hdf5"):
        with h5py.File(path, "w") as file:
            for name, values in arrays.items():
                file[name] = values
    else:
        torch = pytest.importorskip("torch")
        tensors = {name: torch.from_numpy(np.array(values)) for name, values in arrays.items()}
        torch.save(tensors if len(tensors) > 1 else tensors["x"], path)
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int16", "uint8", "bool"])
def test_every_kind_keeps_values_shape_and_dtype(tmp_path, suffix, dtype):
    values = (10 * VALUES).astype(dtype)
    if suffix == ".csv":
        dtype, values = "float64", values.astype("float64")
    if suffix == ".mat" and dtype == "float16":
        dtype = "float32"  # MATLAB has no halves
        values = values.astype(dtype)
    path = write(tmp_path / f"a{suffix}", x=values).rename(tmp_path / f"a{suffix.upper()}")
    header = read_header(path)
    read = open_features(path)
    assert (header.shape, header.dtype) == ((5, 3), np.dtype(dtype))
    assert read.dtype == header.dtype
    assert np.array_equal(read, values)


@pytest.mark.parametrize("suffix", [".npz", ".pt", ".h5", ".mat"])
def test_one_of_several_arrays_is_chosen_by_its_name(tmp_path, suffix):
    path = write(tmp_path / f"a{suffix}", rgb=VALUES, flow=VALUES[:2])
    for function in (read_header, open_features):
        with refused("missing", str(path), n=1) as refusal:
            function(path)
        assert sorted(refusal.values[0]) == ["flow", "rgb"]
        assert "--key" in refusal.problems[0].hint
        with refused("unknown", str(path), "flwo", n=1) as refusal:
            function(path, "flwo")
        assert "'flow'?" in refusal.problems[0].message
    assert read_header(path, "flow").shape == (2, 3)
    assert np.array_equal(open_features(path, "rgb"), VALUES)


def test_a_single_array_is_not_read_under_another_name(tmp_path):
    with refused("unknown", "a.npz", "y"):
        open_features(write(tmp_path / "a.npz", x=VALUES), "y")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_missing_and_a_truncated_file_are_refused(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    with refused("unreadable", str(path), "No such file or directory", n=1):
        open_features(path)
    write(path, x=np.zeros((100, 100)))
    if suffix == ".csv":
        path.write_bytes(path.read_bytes()[:5050])
        with refused("shape", f"{path}:"):
            open_features(path)
        return
    content = path.read_bytes()
    for size in (70, len(content) // 2, len(content) - 60):
        path.write_bytes(content[:size])
        with refused("unreadable", str(path), n=1) as refusal:
            open_features(path)
        assert "copy it again" in refusal.problems[0].hint


@pytest.mark.parametrize("lie", SUFFIXES)
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".pt", ".h5", ".mat"])
def test_the_first_bytes_decide_against_a_suffix_that_lies(tmp_path, suffix, lie):
    path = write(tmp_path / f"a{suffix}", x=VALUES)
    false = path.rename(tmp_path / f"b{lie}")
    if {suffix, lie} <= {".pt", ".pth"} or {suffix, lie} <= {".h5", ".hdf5"} or suffix == lie:
        assert np.array_equal(open_features(false), VALUES)
        return
    with refused("type", str(false), n=1) as refusal:
        open_features(false)
    assert refusal.problems[0].hint == f"give it the suffix {suffix}"


@pytest.mark.parametrize("suffix", PICKLES)
def test_pickles_are_refused_by_name(tmp_path, suffix):
    with refused("type", f"a{suffix}", suffix, n=1) as refusal:
        open_features(tmp_path / f"a{suffix}")
    assert "numpy.save" in refusal.problems[0].hint


def test_another_suffix_is_refused_by_name(tmp_path):
    with refused("type", "a.avi", ".avi", n=1):
        open_features(tmp_path / "a.avi")


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
def test_objects_and_words_are_refused_and_never_loaded(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    if suffix == ".npz":
        np.savez(path, x=np.array([[{}]], dtype=object), allow_pickle=True)
    else:
        with h5py.File(path, "w") as file:
            file["x"] = ["a", "b"]
    for function in (read_header, open_features):
        with refused("type", str(path), "object", n=1):
            function(path)


def npy_entry(shape: tuple[int, ...]) -> bytes:
    """The bytes of a .npy file up to its values."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return file.getvalue()


@pytest.mark.parametrize("size", [0, 10**6])
def test_an_archive_whose_array_is_larger_than_it_says_is_never_unpacked(tmp_path, size):
    """A bomb: the entry unpacks to another size than its array has, or the array to more than a clip may have."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", npy_entry((10**6, 10**6 if not size else 3)) + bytes(size))
    with refused("range" if not size else "unreadable", "a.npz", n=1):
        open_features(tmp_path / "a.npz")


def test_paths_in_an_archive_are_names_and_nothing_is_written(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("../x.npy", npy_entry((2, 1)) + bytes(8))
        archive.writestr("/etc/passwd", "root")
    assert open_features(tmp_path / "a.npz").tolist() == [[0], [0]]
    assert list(tmp_path.iterdir()) == [tmp_path / "a.npz"]


def test_a_changed_byte_of_an_archive_is_damage(tmp_path):
    path = write(tmp_path / "a.npz", x=VALUES)
    content = bytearray(path.read_bytes())
    content[content.index(VALUES.tobytes())] ^= 1
    path.write_bytes(content)
    with refused("unreadable", "a.npz", n=1):
        open_features(path)


def test_data_sets_in_other_files_are_not_read(tmp_path):
    write(tmp_path / "secret.h5", x=VALUES)
    (tmp_path / "secret.raw").write_bytes(VALUES.tobytes())
    layout = h5py.VirtualLayout((5, 3), "f8")
    layout[:] = h5py.VirtualSource(tmp_path / "secret.h5", "x", (5, 3))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["link"] = h5py.ExternalLink("secret.h5", "x")
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("raw", (5, 3), "f8", external=str(tmp_path / "secret.raw"))
    with refused("unknown", "a.h5", "link", n=1):
        open_features(tmp_path / "a.h5", "link")
    for name in ("virtual", "raw"):
        for function in (read_header, open_features):
            with refused("unsupported", "a.h5", f"/{name}", n=1):
                function(tmp_path / "a.h5", name)


def test_a_data_set_is_chosen_by_its_path(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("video/rgb", data=VALUES, compression="gzip", chunks=(2, 3))
        file["video/flow"] = VALUES[:1]
    assert np.array_equal(open_features(path, "video/rgb"), VALUES)
    assert read_header(path, "video/rgb").shape == (5, 3)


@pytest.mark.parametrize("suffix", ["h5", "mat"])
def test_without_h5py_the_extra_is_named(tmp_path, suffix, monkeypatch):
    write(tmp_path / "a.h5", x=VALUES)
    if suffix == "mat":
        matlab_73(tmp_path / "a.mat", x=VALUES)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with refused("unsupported", f"a.{suffix}", "h5py", n=1) as refusal:
        open_features(tmp_path / f"a.{suffix}")
    assert "mucon[hdf5]" in refusal.problems[0].hint


def matlab_73(path: Path, **arrays) -> Path:
    """Writes what MATLAB writes with `save -v7.3`: transposed arrays with their classes, after a block of 512 bytes."""
    classes = {"float64": b"double", "float32": b"single", "uint16": b"char"}
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in arrays.items():
            file[name] = np.asarray(values).T
            file[name].attrs["MATLAB_class"] = np.bytes_(classes[values.dtype.name])
        file.create_dataset("#refs#/a", data=VALUES)
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\0\2IM")
    return path


def test_files_of_matlab_7_3_are_read_as_matlab_shows_them(tmp_path):
    path = matlab_73(tmp_path / "a.mat", features=VALUES.astype("float32"), title=np.array([[65, 66]], "uint16"))
    assert read_header(path).shape == (5, 3)
    assert np.array_equal(open_features(path), VALUES.astype("float32"))


@pytest.mark.parametrize("version", ["4", "5"])
def test_numbers_beside_words_and_structs_of_matlab_are_found(tmp_path, version):
    others = {"name": "video"} if version == "4" else {"name": "video", "info": {"fps": 15.0}}
    scipy.io.savemat(tmp_path / "a.mat", {"features": VALUES, **others}, format=version, do_compression=version == "5")
    assert read_header(tmp_path / "a.mat").shape == (5, 3)
    assert np.array_equal(open_features(tmp_path / "a.mat"), VALUES)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (5, 3), (2, 3, 4), (0, 3)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "uint16", "int64", "bool"])
def test_arrays_of_every_class_and_size_are_read_like_scipy_does(tmp_path, compressed, shape, dtype):
    values = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    scipy.io.savemat(tmp_path / "a.mat", {"a_name": values}, do_compression=compressed)
    read = open_features(tmp_path / "a.mat")
    assert np.array_equal(read, scipy.io.loadmat(tmp_path / "a.mat")["a_name"])
    assert (read_header(tmp_path / "a.mat").shape, read.dtype) == (shape, np.dtype(dtype))


def test_complex_arrays_are_refused(tmp_path):
    for version in ("4", "5"):
        scipy.io.savemat(tmp_path / "a.mat", {"x": VALUES * 1j}, format=version)
        with refused("type", "a.mat", "complex128", n=1):
            open_features(tmp_path / "a.mat")
    np.savez(tmp_path / "a.npz", x=VALUES * 1j)
    with refused("type", "a.npz", "complex128", n=1):
        open_features(tmp_path / "a.npz")


def packed_variable(n_values: int, size: int) -> bytes:
    """A compressed variable of MATLAB with `size` bytes of zeros for its values."""
    name = struct.pack("<HH4s", 1, 1, b"x")
    flags, shape = struct.pack("<IIII", 6, 8, 6, 0), struct.pack("<IIii", 5, 8, n_values, 1)
    content = struct.pack("<II", 14, 0) + flags + shape + name + struct.pack("<II", 9, size) + bytes(size)
    packed = zlib.compress(content)
    return b"MATLAB 5.0".ljust(124) + b"\0\1IM" + struct.pack("<II", 15, len(packed)) + packed


@pytest.mark.parametrize(
    ("n_values", "size", "rule"),
    [(100, 800, ""), (100, 10**7, "unreadable"), (100, 792, "unreadable"), (2**30, 0, "range")],
)
def test_a_variable_is_unpacked_to_the_size_of_its_array_only(tmp_path, n_values, size, rule):
    (tmp_path / "a.mat").write_bytes(packed_variable(n_values, size))
    if not rule:
        assert not open_features(tmp_path / "a.mat").any()
        return
    with refused(rule, "a.mat", n=1):
        open_features(tmp_path / "a.mat")


def test_a_changed_byte_of_a_compressed_variable_is_damage(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"x": VALUES}, do_compression=True)
    content = bytearray((tmp_path / "a.mat").read_bytes())
    content[-3] ^= 1
    (tmp_path / "a.mat").write_bytes(content)
    with refused("unreadable", "a.mat", n=1):
        open_features(tmp_path / "a.mat")


def test_doubles_that_matlab_compresses_to_integers_are_doubles(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"x": np.array([[1.0, 2.0]])})
    content = bytearray((tmp_path / "a.mat").read_bytes())
    tag = content.index(np.array([9, 16], "<u4").tobytes())
    content[tag : tag + 24] = np.array([0x20002, 0x0201], "<u4").tobytes()
    matrix = content.index(np.array([14], "<u4").tobytes(), 128)
    size = int.from_bytes(content[matrix + 4 : matrix + 8], "little")
    content[matrix + 4 : matrix + 8] = (size - 16).to_bytes(4, "little")
    (tmp_path / "a.mat").write_bytes(content)
    assert read_header(tmp_path / "a.mat").dtype == np.float64
    assert open_features(tmp_path / "a.mat").dtype == np.float64
    assert open_features(tmp_path / "a.mat").tolist() == [[1, 2]]


def test_the_suffixes_are_known_without_numpy():
    code = "import sys, storage.feature_files; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_problem_is_a_store_error():
    with pytest.raises(StoreError):
        read_header(Path("/nowhere/a.npz"))
