"""Turns one hot module into C, called by the build: `cythonize_module.py SOURCE_FOLDER MODULE.py OUTPUT.c
DEPFILE`.

Why not the `cython` command alone: run from the source folder, it writes source names relative to it into the
C file (so tracebacks find their lines wherever the package is installed, and no path of the building machine
gets into a wheel), but then its dependency file is relative to the source folder too, which ninja cannot use.
This runs it so and corrects that file.

`cythonize_module.py SOURCE_FOLDER --shared-utility OUTPUT.c` writes the C of the module that holds Cython's
helper code (memoryviews above all) once for all modules. Without it each module with an array carries and
compiles some 15,000 lines of it: three times the time and the size.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SHARED_UTILITY = "blklab._cyutility"

# boundscheck .. initializedcheck: speed; the tests also run uncompiled, where Python itself checks what these
# leave out. annotation_typing: annotations are for mypy, C types come from the .pxd alone. auto_pickle:
# nothing pickles hot objects.
DIRECTIVES = (
    "annotation_typing=False",
    "auto_pickle=False",
    "boundscheck=False",
    "cdivision=True",
    "initializedcheck=False",
    "wraparound=False",
)


def cython(source_folder: Path, arguments: list[str]) -> int:
    """Runs Cython in `source_folder` with the project's directives; returns its exit status."""
    command = [sys.executable, "-m", "cython", "-3", "--fast-fail"]
    for directive in DIRECTIVES:
        command += ["-X", directive]
    return subprocess.run([*command, *arguments], cwd=source_folder, check=False).returncode


def absolute_dependencies(dependency_text: str, source_folder: Path) -> list[str]:
    """The file names of a makefile rule whose names are relative to `source_folder`, escaped and absolute."""
    names = re.findall(r"(?:[^\s\\]|\\ )+", dependency_text.partition(":")[2])
    resolved = [(source_folder / name.replace("\\ ", " ")).resolve() for name in names]
    return sorted(str(path).replace(" ", "\\ ") for path in resolved)


def main(argv: list[str]) -> int:
    """See the module's docstring. The exit status is Cython's."""
    source_folder = Path(argv[0]).resolve()
    if argv[1] == "--shared-utility":
        output = Path(argv[2]).resolve()
        return cython(source_folder, [f"--generate-shared={output}", "--module-name", SHARED_UTILITY])
    source, output, depfile = Path(argv[1]).resolve(), Path(argv[2]).resolve(), Path(argv[3])
    relative = source.relative_to(source_folder)
    module = ".".join(relative.with_suffix("").parts)
    output.unlink(missing_ok=True)
    status = cython(
        source_folder,
        [
            "--shared",
            SHARED_UTILITY,
            "--module-name",
            module,
            "--depfile",
            "-I",
            ".",
            "-o",
            str(output),
            str(relative),
        ],
    )
    if status == 0:
        written = Path(f"{output}.dep")
        names = absolute_dependencies(written.read_text(), source_folder)
        written.unlink()
        depfile.write_text(f"{argv[2]}: {' '.join(names)}\n")
    else:
        output.unlink(missing_ok=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
