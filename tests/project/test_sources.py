"""Nothing is missed: every hot module is compiled, every file is installed, every folder has its build
file."""

from __future__ import annotations

import re
import sys
import sysconfig
from pathlib import Path

import pytest

import sources

HOT = sources.hot_modules()


def test_every_hot_module_is_compiled_in_a_compiled_package(compiled: bool, package: Path) -> None:
    if not compiled:
        pytest.skip("the package under test is not compiled")
    assert [module for module, library in sources.hot_libraries(package).items() if library is None] == []


def test_no_compiled_module_is_older_than_its_sources(package: Path) -> None:
    assert sources.stale_modules(package) == []


def test_every_declaration_file_is_a_package_a_hot_module_or_c_forms_only() -> None:
    """A .pxd that is not compiled may hold nothing but C definitions and inline functions, which need no
    library."""
    for name in sources.installed_files():
        if not name.endswith(".pxd") or name.removesuffix(".pxd") in HOT:
            continue
        text = (sources.PACKAGE_FOLDER / name).read_text()
        statements = re.findall(r"^(?![ #\n]|cimport |from |import )(.+)$", text, re.MULTILINE)
        allowed = re.compile(r"cdef extern |cdef inline |cdef enum|ctypedef |$")
        assert [line for line in statements if not allowed.match(line)] == [], name


def test_every_hot_module_has_its_python_source_and_package_declaration() -> None:
    """Cython finds a module's .pxd by its package's __init__.pxd; without the .py there is nothing to
    compile."""
    files = set(sources.installed_files())
    for declaration in (name for name in files if name.endswith(".pxd")):
        assert declaration.removesuffix(".pxd") + ".py" in files, declaration
    for folder in sources.hot_folders():
        assert f"{folder}/__init__.pxd" in files, folder
        assert f"{folder}/__init__.py" in files, folder


def test_every_folder_with_hot_modules_has_the_build_file() -> None:
    assert sources.missing_meson_builds() == []


def test_files_of_a_new_module_are_found(tmp_path: Path) -> None:
    for name, text in {
        "block/new.py": "",
        "block/new.pxd": "cdef class New:\n    pass\n",
        "block/forms.py": "",
        "block/forms.pxd": "cdef enum:\n    ONE = 1\n",
        "block/plain.py": "",
        "block/__pycache__/plain.py": "",
        "sim/machines/new.toml": "",
        "sim/notes.txt": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert sources.hot_modules(tmp_path) == ["block/new"]
    assert sources.installed_files(tmp_path) == [
        "block/forms.pxd",
        "block/forms.py",
        "block/new.pxd",
        "block/new.py",
        "block/plain.py",
        "sim/machines/new.toml",
    ]


def test_tracebacks_name_source_files_relative_to_the_package(compiled: bool, package: Path) -> None:
    """So the lines are found wherever the package is installed, and no path of the building machine is in
    it."""
    if not compiled:
        pytest.skip("the package under test is not compiled")
    library = sources.hot_libraries(package)["core/clock"]
    assert library is not None
    assert library.name == f"clock{sysconfig.get_config_var('EXT_SUFFIX')}"
    content = library.read_bytes()
    assert b"blklab/core/clock.py" in content
    for folder in (sources.ROOT, Path.home(), Path(sys.prefix)):
        assert f"{folder}/".encode() not in content
