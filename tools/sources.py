"""What the package consists of: the one list that meson, the development build and the tests work from.

Theory of operation
    A *hot module* is any `src/blklab/**/x.py` with an `x.pxd` beside it that declares a class or a cpdef
    function: it is compiled by Cython, and the same `.py` also runs uncompiled. Everything with a known
    suffix is installed as it is. Nothing is listed by hand, so a new module or data file is built and shipped
    by being there.
"""

from __future__ import annotations

import re
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE_FOLDER = ROOT / "src"
PACKAGE_FOLDER = SOURCE_FOLDER / "blklab"

INSTALLED_SUFFIXES = (".py", ".pxd", ".toml", ".typed", ".template")

# A .pxd without one of these only gives C forms (constants, inline functions) of what the .py beside it
# defines: that .py is never compiled, the modules that use it cimport the .pxd instead.
_DECLARES_COMPILED_CODE = re.compile(r"^(cdef class|cpdef) ", re.MULTILINE)

# Every folder with hot modules needs these very lines as its meson.build: meson names a target by its folder,
# and two folders may hold modules of one name. `python tools/sources.py write-meson` writes the missing ones.
FOLDER_MESON_BUILD = """\
# The same lines in every folder with hot modules, written by tools/sources.py.
foreach name : hot_names
  c_file = custom_target(name + '_c',
    input: [name + '.py', name + '.pxd'],
    output: name + '.c',
    depfile: name + '.c.dep',
    command: cythonize + ['@INPUT0@', '@OUTPUT@', '@DEPFILE@'])
  py.extension_module(name, c_file, subdir: install_folder, kwargs: extension_kwargs)
endforeach
"""


def installed_files(package: Path = PACKAGE_FOLDER) -> list[str]:
    """Paths below the package of all files that are installed as they are, sorted."""
    found = []
    for path in package.rglob("*"):
        relative = path.relative_to(package)
        hidden = any(part == "__pycache__" or part.startswith(".") for part in relative.parts)
        if relative.suffix in INSTALLED_SUFFIXES and path.is_file() and not hidden:
            found.append(relative.as_posix())
    return sorted(found)


def hot_modules(package: Path = PACKAGE_FOLDER) -> list[str]:
    """Paths below the package, without suffix, of the modules to compile, sorted: "block/tags"."""
    files = installed_files(package)
    present = set(files)
    return [
        name[: -len(".pxd")]
        for name in files
        if name.endswith(".pxd")
        and not name.endswith("__init__.pxd")
        and name[: -len(".pxd")] + ".py" in present
        and _DECLARES_COMPILED_CODE.search((package / name).read_text())
    ]


def hot_folders() -> dict[str, list[str]]:
    """Folder below src/blklab -> names of its hot modules. The package folder itself holds none."""
    folders: dict[str, list[str]] = {}
    for module in hot_modules():
        folder, _, name = module.rpartition("/")
        folders.setdefault(folder, []).append(name)
    return folders


def hot_libraries(package: Path) -> dict[str, Path | None]:
    """Hot module ("block/tags") -> its compiled library in that package, or None where there is none."""
    libraries: dict[str, Path | None] = {}
    for module in hot_modules(package):
        candidates = (Path(f"{package / module}{suffix}") for suffix in EXTENSION_SUFFIXES)
        libraries[module] = next((path for path in candidates if path.exists()), None)
    return libraries


def stale_modules(package: Path) -> list[str]:
    """Compiled modules of that package whose library is older than one of their own two source files."""
    stale = []
    for module, library in hot_libraries(package).items():
        if library is not None:
            times = [(package / f"{module}{suffix}").stat().st_mtime for suffix in (".py", ".pxd")]
            if max(times) > library.stat().st_mtime:
                stale.append(module)
    return stale


def cimports(module: str) -> set[str]:
    """The blklab modules ("block/tags") that a hot module's two files cimport, themselves hot or not."""
    text = "".join((PACKAGE_FOLDER / f"{module}{suffix}").read_text() for suffix in (".pxd", ".py"))
    found = re.findall(r"^\s*from blklab\.([\w.]+) cimport", text, re.MULTILINE)
    found += re.findall(r"^\s*cimport blklab\.([\w.]+)", text, re.MULTILINE)
    return {name.replace(".", "/") for name in found}


def missing_meson_builds() -> list[Path]:
    """meson.build files of folders with hot modules that are missing or differ from FOLDER_MESON_BUILD."""
    wanted = [PACKAGE_FOLDER / folder / "meson.build" for folder in hot_folders()]
    return [path for path in wanted if not path.is_file() or path.read_text() != FOLDER_MESON_BUILD]


def write_meson_builds() -> list[Path]:
    """Writes what `missing_meson_builds` names and returns it."""
    written = missing_meson_builds()
    for path in written:
        path.write_text(FOLDER_MESON_BUILD)
    return written


def main(argv: list[str]) -> int:
    """`files`: installed files, one a line. `hot`: "folder: name name ..." a line. `write-meson`: see
    above."""
    if argv == ["files"]:
        print("\n".join(installed_files()))
    elif argv == ["hot"]:
        print("\n".join(f"{folder}: {' '.join(names)}" for folder, names in hot_folders().items()))
    elif argv == ["write-meson"]:
        for path in write_meson_builds():
            print(path.relative_to(ROOT))
    else:
        print("usage: sources.py files | hot | write-meson", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
