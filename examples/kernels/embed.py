"""Writes a text file as a C header with one constant string: embed.py FILE NAME HEADER."""
import sys

source, name, header = sys.argv[1:]
with open(source, encoding="utf-8") as file:
    lines = file.read().splitlines()
with open(header, "w", encoding="utf-8") as file:
    file.write(f"static const char {name}[] =\n")
    for line in lines:
        escaped = line.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
        file.write(f'    "{escaped}\\n"\n')
    file.write("    ;\n")
