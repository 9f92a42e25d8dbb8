#!/usr/bin/env python3
"""The blocks of docs/python.md run as they stand there.

usage: test_docs.py INCLUDE_DIR CC
"""
import contextlib
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import tap

INCLUDE, COMPILER = sys.argv[1:3]
HAS_TORCH = importlib.util.find_spec("torch") is not None
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"


def blocks(kind):
    text = PAGE.read_text(encoding="utf-8")
    for match in re.finditer(rf"^```{kind}\n(.*?)^```", text, re.M | re.S):
        line = text.count("\n", 0, match.start()) + 1
        yield line, match.group(1)


class Docs(unittest.TestCase):
    def test_blocks_of_the_page(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "mul.c"
            source.write_text("".join(text for _, text in blocks("host")))
            subprocess.run([COMPILER, "-O2", "-shared", "-fPIC", f"-I{INCLUDE}", "-o", f"{folder}/mul.so", str(source)], check=True)
            before = os.getcwd()
            os.chdir(folder)
            try:
                space = {}
                with contextlib.redirect_stdout(sys.stderr):
                    for line, text in blocks("python"):
                        if "import torch" in text and not HAS_TORCH:
                            break
                        exec(compile("\n" * line + text, str(PAGE), "exec"), space)
            finally:
                os.chdir(before)
        self.assertIn("back" if HAS_TORCH else "plan", space)


if __name__ == "__main__":
    del sys.argv[1:3]
    tap.main()
