#!/usr/bin/env python3
"""The package as pip installs it, and as it lies in the tree."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import tap

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = """
import diffdispatch as dd
print(dd.__file__)
print(dd.open("host").tensor([1, 2], requires_grad=True).tolist())
"""


def run(*arguments, **environment):
    changed = {**os.environ, **environment}
    changed = {name: value for name, value in changed.items() if value is not None}
    return subprocess.run(arguments, text=True, capture_output=True, cwd=tempfile.gettempdir(), env=changed)


def has(*modules):
    return run(sys.executable, "-c", "import " + ", ".join(modules)).returncode == 0


class Package(unittest.TestCase):
    def test_in_the_tree(self):
        result = run(sys.executable, "-c", PROGRAM, PYTHONPATH=str(ROOT / "bindings" / "python"))
        self.assertEqual(result.stdout.split("\n")[1], "[1.0, 2.0]", result.stderr)

    def test_library_is_found_beside_the_package(self):
        """A copy of the package with the library in its folder, as a wheel could have it."""
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder) / "diffdispatch"
            shutil.copytree(ROOT / "bindings" / "python" / "diffdispatch", package)
            library = pathlib.Path(os.environ["DDISP_LIBRARY"])
            os.symlink(library, package / "libdiffdispatch.so.0")
            program = PROGRAM + "\nprint(dd.library._name)"
            result = run(sys.executable, "-c", program, PYTHONPATH=folder, DDISP_LIBRARY=None,
                         DDISP_BACKEND_PATH=str(library.parent.parent / "backends"))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stdout.split("\n")[2], str(package / "libdiffdispatch.so.0"))

    def test_pip_installs_it(self):
        if not has("setuptools", "wheel", "pip"):
            self.skipTest("pip, setuptools or wheel is not installed")
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "source"
            shutil.copytree(ROOT / "bindings" / "python", source, ignore=shutil.ignore_patterns("__pycache__"))
            target = pathlib.Path(folder) / "target"
            result = run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
                         "--disable-pip-version-check", "--target", str(target), str(source))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue((target / "diffdispatch" / "py.typed").is_file())
            self.assertTrue((target / "diffdispatch" / "torch" / "__init__.py").is_file())
            result = run(sys.executable, "-c", PROGRAM, PYTHONPATH=str(target))
            self.assertEqual(result.stdout.split("\n")[:2], [str(target / "diffdispatch" / "__init__.py"), "[1.0, 2.0]"], result.stderr)

    def test_versions_agree(self):
        text = (ROOT / "bindings" / "python" / "pyproject.toml").read_text(encoding="utf-8")
        import diffdispatch
        self.assertIn(f'version = "{diffdispatch.__version__}"', text)


if __name__ == "__main__":
    tap.main()
