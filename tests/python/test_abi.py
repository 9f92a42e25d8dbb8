#!/usr/bin/env python3
"""diffdispatch-api.json says what the headers say, and the Python package has everything that it says.

usage: test_abi.py API_JSON INCLUDE_DIR CC
"""
import ctypes as C
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import diffdispatch as dd
import tap
from diffdispatch import _abi

JSON, INCLUDE, COMPILER = sys.argv[1:4]
API = json.loads(pathlib.Path(JSON).read_text(encoding="utf-8"))
STRUCTS = [struct for struct in API["structs"] if struct["header"] != "backend.h"]
CONSTANTS = [constant for constant in API["constants"] if constant["header"] != "backend.h"]
FUNCTIONS = [function for function in API["functions"] if function["header"] != "backend.h"]


def compiles(lines):
    includes = "".join(f"#include <diffdispatch/{header}>\n" for header in API["headers"])
    result = subprocess.run([COMPILER, "-std=c11", f"-I{INCLUDE}", "-Wall", "-Werror", "-fsyntax-only", "-x", "c", "-"],
                            input=includes + "\n".join(lines), text=True, capture_output=True)
    return result.stderr


class Json(unittest.TestCase):
    """Against a C compiler."""

    def test_structs_have_their_sizes_and_offsets(self):
        lines = []
        for struct in API["structs"]:
            lines.append(f"_Static_assert(sizeof({struct['name']}) == {struct['size']}, \"{struct['name']}\");")
            for field in struct["fields"]:
                place = f"{struct['name']}.{field['name']}"
                lines.append(f"_Static_assert(offsetof({struct['name']}, {field['name']}) == {field['offset']} && "
                             f"sizeof((({struct['name']} *)0)->{field['name']}) == {field['size']}, \"{place}\");")
        self.assertEqual(compiles(lines), "")

    def test_no_field_is_missing(self):
        """The fields cover every struct but for its padding at the end."""
        for struct in API["structs"]:
            at = 0
            for field in struct["fields"]:
                self.assertEqual(field["offset"], at, f"{struct['name']}.{field['name']}")
                at += field["size"]
            self.assertEqual(at, struct["size"], struct["name"])

    def test_constants_have_their_values(self):
        self.assertEqual(compiles([f"_Static_assert({constant['name']} == {constant['value']}u, \"{constant['name']}\");"
                                   for constant in API["constants"]]), "")

    def test_functions_have_their_types(self):
        lines = []
        for function in API["functions"]:
            parameters = ", ".join(parameter["type"] for parameter in function["parameters"]) or "void"
            lines.append(f"extern {function['returns']} (*take_{function['name']})({parameters});\n"
                         f"void check_{function['name']}(void); void check_{function['name']}(void) "
                         f"{{ take_{function['name']} = {function['name']}; }}")
        plain = [line.replace("DLManaged", "struct DLManaged").replace("struct struct", "struct") for line in lines]
        self.assertEqual(compiles(plain), "")

    def test_everything_in_the_headers_is_there(self):
        """Names found by other means than the reader's."""
        text = "".join(re.sub(r"/\*.*?\*/", "", (pathlib.Path(INCLUDE) / "diffdispatch" / header).read_text(encoding="utf-8"), flags=re.S)
                       for header in API["headers"])
        functions = set(re.findall(r"DDISP_API[^;(]*?\b(ddisp_\w+)\(", text))
        self.assertEqual({function["name"] for function in API["functions"]}, functions)
        structs = set(re.findall(r"typedef struct (ddisp_\w+) \{", text))
        self.assertEqual({struct["name"] for struct in API["structs"]}, structs)
        members = set(re.findall(r"^\s*(DDISP_\w+)\s*=", text, re.M)) | set(
            re.findall(r"^#define[ \t]+(DDISP_\w+)[ \t]+[(\d]", text.replace("\\\n", " "), re.M)) | set(
            re.findall(r"^#define[ \t]+(DDISP_\w+)[ \t]+U?INT\d\d_", text.replace("\\\n", " "), re.M))
        self.assertEqual(members - {constant["name"] for constant in API["constants"]}, set())


class Binding(unittest.TestCase):
    """Of the Python package. What fails here is cured by: tools/api-json include --python -o bindings/python/diffdispatch/_abi.py"""

    def test_it_has_every_field_of_every_struct(self):
        for struct in STRUCTS:
            kind = getattr(_abi, struct["name"], None)
            self.assertIsNotNone(kind, f"{struct['name']} is missing")
            self.assertEqual([name for name, *_ in kind._fields_], [field["name"] for field in struct["fields"]], struct["name"])
            for field in struct["fields"]:
                found = getattr(kind, field["name"])
                self.assertEqual((found.offset, found.size), (field["offset"], field["size"]), f"{struct['name']}.{field['name']}")
            self.assertEqual(C.sizeof(kind), struct["size"], struct["name"])

    def test_it_has_every_constant(self):
        kinds = {kind["name"] for kind in API["types"] if kind["kind"] == "integer"}
        members = {}
        for name, value in vars(_abi).items():
            if isinstance(value, type) and issubclass(value, _abi.enum.IntEnum):
                members[f"ddisp_{re.sub('(?<!^)(?=[A-Z])', '_', name).lower()}".replace("d_type", "dtype")] = value
        for constant in CONSTANTS:
            name = constant["name"]
            if constant["type"] in kinds:
                short = name.removeprefix(constant["type"].upper() + "_")
                found = getattr(members.get(constant["type"]), short, None)
            else:
                found = getattr(_abi, name.removeprefix("DDISP_"), None)
            self.assertEqual(found, constant["value"], name)

    def test_it_has_every_function_with_as_many_arguments(self):
        for function in FUNCTIONS:
            name = function["name"]
            self.assertTrue(name in _abi.FUNCTIONS, f"{name} is missing")
            self.assertEqual(len(_abi.FUNCTIONS[name][1]), len(function["parameters"]), name)
            self.assertTrue(callable(getattr(dd.raw, name)))
        self.assertEqual(set(_abi.FUNCTIONS) - {function["name"] for function in FUNCTIONS}, set())

    def test_its_file_is_what_the_headers_make(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        made = subprocess.run([sys.executable, root / "tools" / "api-json", INCLUDE, "--python"], text=True, capture_output=True, check=True)
        self.assertEqual((root / "bindings" / "python" / "diffdispatch" / "_abi.py").read_text(encoding="utf-8"), made.stdout)


class Lacking(unittest.TestCase):
    """What the headers gain and the package lacks is found: the tests above, on a copy of the headers with one thing more."""

    def found(self, case, header="", place="", more=""):
        """Whether `case` passes after `more` is put before `place`, and what it says."""
        with tempfile.TemporaryDirectory() as folder:
            include = pathlib.Path(folder) / "include"
            shutil.copytree(INCLUDE, include)
            if more:
                path = include / "diffdispatch" / header
                text = path.read_text(encoding="utf-8")
                self.assertEqual(text.count(place), 1, place)
                path.write_text(text.replace(place, more + place), encoding="utf-8")
            made = pathlib.Path(folder) / "api.json"
            root = pathlib.Path(__file__).resolve().parents[2]
            subprocess.run([sys.executable, root / "tools" / "api-json", include, "-o", made], check=True)
            result = subprocess.run([sys.executable, __file__, made, include, COMPILER, f"Binding.{case}"], text=True, capture_output=True)
            return result.returncode == 0, result.stdout

    def assertFound(self, name, case, *change):
        self.assertEqual(self.found(case)[0], True, "without a change")
        good, output = self.found(case, *change)
        self.assertFalse(good)
        self.assertIn("not ok 1", output)
        self.assertIn(name, output)

    def test_a_field(self):
        self.assertFound("extra_field", "test_it_has_every_field_of_every_struct", "launch.h", "} ddisp_report_slot;",
                         "    uint64_t extra_field; /**< new */\n")

    def test_a_struct(self):
        self.assertFound("ddisp_extra", "test_it_has_every_field_of_every_struct", "launch.h", "typedef struct ddisp_report ddisp_report;",
                         "typedef struct ddisp_extra {\n    uint32_t size;\n    uint32_t reserved;\n} ddisp_extra;\n")

    def test_an_enumerator(self):
        self.assertFound("DDISP_POLICY_EXTRA", "test_it_has_every_constant", "launch.h", "    DDISP_POLICY_DEFAULT = 0,",
                         "    DDISP_POLICY_EXTRA = 99,\n")

    def test_a_flag(self):
        self.assertFound("DDISP_LAUNCH_EXTRA", "test_it_has_every_constant", "launch.h", "typedef struct ddisp_report ddisp_report;",
                         "#define DDISP_LAUNCH_EXTRA UINT64_C(0x40000000)\n")

    def test_a_function(self):
        self.assertFound("ddisp_extra", "test_it_has_every_function_with_as_many_arguments", "launch.h", "/* ---- report ---- */",
                         "DDISP_API ddisp_status ddisp_extra(uint32_t number);\n")

    def test_the_file_itself(self):
        self.assertFound("extra_field", "test_its_file_is_what_the_headers_make", "launch.h", "} ddisp_report_slot;",
                         "    uint64_t extra_field; /**< new */\n")


if __name__ == "__main__":
    del sys.argv[1:4]
    tap.main()
