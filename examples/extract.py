"""Writes the first whole program of a document to a file: extract.py DOCUMENT FILE."""
import re
import sys

document, path = sys.argv[1:]
with open(document, encoding="utf-8") as file:
    program = re.search(r"^```c(?:pp)? full\n(.*?)^```$", file.read(), re.S | re.M)[1]
with open(path, "w", encoding="utf-8") as file:
    file.write(program)
