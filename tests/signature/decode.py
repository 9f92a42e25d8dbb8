#!/usr/bin/env python3
"""decode.py: reads canonical bytes of signatures back, by docs/signature.md alone, and holds what it reads against the
requests of golden.txt in words. Prints results in the Test Anything Protocol."""
import subprocess
import sys

import golden

DTYPES = "any bool u8 i8 u16 i16 u32 i32 u64 i64 f16 bf16 f32 f64".split()
ACCESS = [None, "in", "out", "inout"]
POLICIES = [None, "auto", "specialize", "guard", "sink", "scratch"]
LAYOUTS = {1: "dense", 2: "strided", 10: "overlapping", 4: "broadcast"}
LAUNCH_FLAGS = ["zero_upstream", "keep_upstream", "overwrite", "no_alloc"]


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, size):
        if self.at + size > len(self.data):
            raise ValueError(f"ends at byte {len(self.data)}")
        self.at += size
        return int.from_bytes(self.data[self.at - size:self.at], "little")

    def one_of(self, table):
        index = self.number(1)
        found = table.get(index) if isinstance(table, dict) else table[index] if index < len(table) else None
        if found is None:
            raise ValueError(f"byte {self.at - 1} is {index}")
        return found

    def text(self):
        length = self.number(1)
        return bytes(self.number(1) for _ in range(length)).decode("ascii")


def decode_slots(r):
    bits, policy, writes = r.number(1), r.number(1), r.number(1)
    param = {"add": bool(bits & 1), "grad": bool(bits & 2), "read": bool(bits & 4), "upstream": bool(bits & 8),
             "policy": POLICIES[policy], "writes": writes}
    if bits >> 4 or param["grad"] > param["add"] or param["upstream"] > param["read"]:
        raise ValueError(f"slots are {bits}")
    if bool(writes) != param["add"] or bool(policy) != (param["add"] and not param["grad"]):
        raise ValueError("policy or write modes without a frozen add slot, or none with one")
    for there, prefix in ((param["grad"], "add_"), (param["upstream"], "read_")):
        dtype = r.number(1)
        layout = r.one_of(LAYOUTS) if there else r.number(1)
        if not there and (dtype or layout):
            raise ValueError("a gradient that is not there has a dtype or a layout")
        param[prefix + "dtype"], param[prefix + "layout"] = DTYPES[dtype] if there else None, layout or None
        if prefix == "add_":
            param["add_alias"] = r.number(1)
    return param


def decode(data):
    r = Reader(data)
    if r.data[:2] != b"DS":
        raise ValueError("no signature")
    r.at = 2
    if r.number(1) != 2:
        raise ValueError("another version")
    out = {"backend": r.text(), "architecture": r.text(), "vendor": r.number(4), "device": r.number(4),
           "driver": r.number(4), "features": r.number(8), "kernel": r.number(16).to_bytes(16, "little").hex(),
           "mode": r.one_of({1: "forward", 2: "backward"})}
    bits = r.number(8)
    out["flags"] = [name for bit, name in enumerate(LAUNCH_FLAGS) if bits >> bit & 1]
    out["index_width"], out["deterministic"], out["atomic_mode"] = r.number(1), r.number(1), r.number(1)
    out["params"] = []
    for _ in range(r.number(1)):
        param = {"kind": r.one_of(["tensor", "scalar"]), "access": r.one_of(ACCESS), "dtype": r.one_of(DTYPES)}
        if param["kind"] == "tensor":
            param |= {"rank": r.number(1), "layout": r.one_of(LAYOUTS), "alignment": 2 ** r.number(1),
                      "alias": r.number(1)}
            if out["mode"] == "backward":
                param |= decode_slots(r)
        out["params"].append(param)
    if r.at != len(data):
        raise ValueError(f"{len(data) - r.at} bytes too many")
    return out


def compare(request):
    """What was read is what was asked, as far as words say it."""
    got = decode(bytes.fromhex(request["bytes"]))
    architecture, *identity = request["device"]
    mode, policy, *flags = request["launch"]
    backward = mode == "backward"
    wanted = {"backend": "compiler", "architecture": architecture, "mode": mode, "kernel": request["kernel"],
              "index_width": 64, "atomic_mode": 0,
              "flags": [name for name in LAUNCH_FLAGS if name in flags and backward],
              "deterministic": int(backward and "deterministic" in flags)}
    wanted |= dict(zip(("vendor", "device", "driver", "features"), (int(word, 0) for word in identity)))
    assert {name: got[name] for name in wanted} == wanted, (got, wanted)
    assert len(got["params"]) == len(request["args"])
    for declared, arg, param in zip(request["params"], request["args"], got["params"]):
        _, kind, access, _, _, *rest = declared
        assert (param["kind"], param["access"], param["dtype"]) == (kind, access, arg["dtype"])
        if kind == "scalar":
            assert len(param) == 3
            continue
        assert param["rank"] == len(arg["shape"])
        assert arg["address"] % param["alignment"] == 0
        if arg["strides"] is None:
            assert param["layout"] == "dense"
        if not backward:
            assert len(param) == 7
            continue
        differentiable = "differentiable" in rest
        assert param["add"] == (differentiable and access != "out")
        assert param["read"] == (differentiable and access != "in")
        assert param["grad"] == (param["add"] and arg["grad"])
        assert param["upstream"] == (param["read"] and arg["read"] is not None)
        if param["add"] and not param["grad"]:
            asked = [word for word in (arg["policy"], policy, "auto") if word != "default"]
            assert param["policy"] == asked[0]
        for there, name in ((param["grad"], "add_dtype"), (param["upstream"], "read_dtype")):
            default = "f32" if arg["dtype"] in ("f16", "bf16") else arg["dtype"]
            assert param[name] == ((default if arg["gdtype"] == "any" else arg["gdtype"]) if there else None)


def refuses_other_lengths(request):
    data = bytes.fromhex(request["bytes"])
    for other in [data[:length] for length in range(len(data))] + [data + b"\0"]:
        try:
            decode(other)
        except ValueError:
            continue
        raise AssertionError(f"{len(other)} of {len(data)} bytes were taken")


def encoder(_):
    subprocess.run([sys.executable, golden.GOLDEN.parent / "encode.py"], check=True)


def every_field_is_covered(requests):
    """Each value that a field can have is in some request."""
    got = [decode(bytes.fromhex(request["bytes"])) for request in requests]
    params = [param for signature in got for param in signature["params"]]

    def values(things, name):
        return {str(thing[name]) for thing in things if name in thing}

    for name, wanted in {"access": {"in", "out", "inout"}, "kind": {"tensor", "scalar"}, "dtype": set(DTYPES[1:]),
                         "rank": set("012345678"), "layout": set(LAYOUTS.values()), "add_dtype": {"f16", "bf16", "f32", "f64"},
                         "add_layout": set(LAYOUTS.values()), "read_layout": set(LAYOUTS.values()),
                         "read_dtype": {"f16", "bf16", "f32", "f64"}, "policy": set(POLICIES[1:]),
                         "grad": {"True", "False"}, "upstream": {"True", "False"}}.items():
        missing = wanted - values(params, name)
        assert not missing, f"no request has {name} {missing}"
    for name in ("architecture", "vendor", "device", "driver", "features", "kernel", "mode"):
        assert len(values(got, name)) > 1, f"{name} is the same in all requests"
    for name in ("alias", "add_alias", "alignment", "writes"):
        assert len(values(params, name)) > 2, f"{name} is hardly ever used"
    assert values(got, "deterministic") == {"0", "1"}
    for flag in LAUNCH_FLAGS:
        assert any(flag in signature["flags"] for signature in got)
    assert len(requests) >= 40 and len({request["bytes"] for request in requests}) >= 40


def main():
    requests = golden.parse(golden.GOLDEN.read_text())
    tests = [("encoder_gives_the_golden_bytes", encoder, requests[0]),
             ("every_field_is_covered", every_field_is_covered, requests)]
    tests += [(f"reads_{r['name']}", compare, r) for r in requests]
    tests += [("other_lengths_are_refused", lambda all: [refuses_other_lengths(r) for r in all], requests)]
    failed = 0
    print(f"1..{len(tests)}")
    for number, (name, function, argument) in enumerate(tests, 1):
        try:
            function(argument)
            print(f"ok {number} - {name}")
        except (AssertionError, ValueError, subprocess.CalledProcessError) as error:
            failed += 1
            print(f"not ok {number} - {name}\n# {type(error).__name__}: {str(error)[:800]}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
