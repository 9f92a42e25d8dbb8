"""Writes any file as a C header with one constant array: embed.py FILE NAME HEADER."""
import pathlib
import sys

source, name, header = sys.argv[1:]
data = pathlib.Path(source).read_bytes()
rows = [", ".join(str(byte) for byte in data[at : at + 24]) for at in range(0, len(data), 24)]
pathlib.Path(header).write_text(
    f"static const unsigned char {name}[] = {{\n    " + ",\n    ".join(rows) + "};\n", encoding="utf-8")
