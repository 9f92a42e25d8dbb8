#!/usr/bin/env python3
"""encode.py [--write]: an implementation of docs/signature.md of its own, to hold the library's against.

Checks golden.txt, or writes the bytes and hashes into it. Needs the xxhash module (pip install xxhash) for hashes;
without it they are taken as golden.txt has them. Requests are never changed, only added: other bytes for the same
request mean a new version of the encoding.
"""
import struct
import sys

import golden

try:
    import xxhash
except ImportError:
    xxhash = None

MODES = {"forward": 1, "backward": 2}
KINDS = {"tensor": 0, "scalar": 1}
ACCESS = {"in": 1, "out": 2, "inout": 3}
DTYPES = {name: number for number, name in enumerate(
    "any bool u8 i8 u16 i16 u32 i32 u64 i64 f16 bf16 f32 f64".split())}
POLICIES = {name: number for number, name in enumerate("default auto specialize guard sink scratch reject".split())}
WRITE_MODES = {name: number for number, name in enumerate("atomic plain once readsback unknown".split())}
CODE_FLAGS = {"null_safe": 1, "borrowed": 2, "any_layout": 4, "pre_reduces": 8}
LAUNCH_FLAGS = {"zero_upstream": 1, "keep_upstream": 2, "overwrite": 4, "no_alloc": 8, "dry_run": 16,
                "deterministic": 32}
PARAM_FLAGS = {"differentiable": 1, "items": 2}
DENSE, STRIDED, BROADCAST, OVERLAPS = 1, 2, 4, 8


def flags(words, table):
    return sum(table[word] for word in words)


def hash_of(data):
    digest = xxhash.xxh3_128_intdigest(data)
    return struct.pack("<QQ", digest & 2**64 - 1, digest >> 64)


# ---- identity of a kernel

def string(text):
    return struct.pack("<I", len(text)) + text.encode()


def content(text):
    return struct.pack("<Q", len(text)) + hash_of(text.encode())


def code_params(request, code):
    """Write mode, gradient dtype, layouts, gradient layouts, alignment and switch of each parameter, resolved."""
    declared = {int(words[0]): words[1:] for words in code["params"]}
    resolved = []
    for index in range(len(request["params"])):
        write, dtype, *rest = declared.get(index, ("atomic", "any", "0", "0", "0", "0"))
        layouts, gradient_layouts, alignment, switch = (int(word) for word in rest)
        everything = "any_layout" in code["flags"]
        layouts = (layouts or (7 if everything else 1)) | 1
        gradient_layouts = (gradient_layouts or (7 if everything else layouts)) | 1
        resolved.append((WRITE_MODES[write], DTYPES[dtype], layouts, gradient_layouts, alignment, switch))
    return resolved


def code_hash(request, code):
    out = string("compiler") + string("rpn") + string(code["options"]) + content(code["source"])
    out += struct.pack("<Q", flags(code["flags"], CODE_FLAGS) & ~CODE_FLAGS["borrowed"])
    out += struct.pack("<I", len(code["headers"]))
    for name, text in code["headers"]:
        out += string(name) + content(text)
    params = code_params(request, code)
    out += struct.pack("<I", len(params)) + b"".join(struct.pack("<6I", *param) for param in params)
    out += struct.pack("<I", len(code["entries"]))
    for entry in code["entries"]:
        mode, name, group, identity, mask, bits, shared = entry["words"]
        out += struct.pack("<I", MODES[mode]) + string(name) + struct.pack("<3I", *golden.numbers(group))
        out += struct.pack("<QQQI", int(identity, 0), int(mask, 0), int(bits, 0), int(shared, 0))
        out += struct.pack("<I", len(entry["natives"]))
        out += b"".join(struct.pack("<8I", *native) for native in entry["natives"])
    return hash_of(out)


def kernel_hash(request):
    out = struct.pack("<I", len(request["params"]))
    for _, kind, access, dtype, rank, *rest in request["params"]:
        number = 0xFFFFFFFF if rank == "any" else int(rank)
        out += struct.pack("<4IQ", KINDS[kind], ACCESS[access], DTYPES[dtype], number, flags(rest, PARAM_FLAGS))
    out += struct.pack("<I", len(request["codes"]))
    return hash_of(out + b"".join(code_hash(request, code) for code in request["codes"]))


# ---- classes

def dense_strides(shape, like=None):
    """Row-major; 0 where `like` has a stride of 0 on an axis of several elements."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(range(len(shape))):
        if like and like[axis] == 0 and shape[axis] > 1:
            continue
        strides[axis] = step
        step *= max(shape[axis], 1)
    return strides


def layout_class(shape, strides):
    if 0 in shape:
        return DENSE
    axes = [(extent, stride) for extent, stride in zip(shape, strides) if extent != 1]
    if any(stride == 0 for _, stride in axes):
        return BROADCAST
    if [stride for _, stride in axes] == dense_strides([extent for extent, _ in axes]):
        return DENSE
    span = 1
    for stride, extent in sorted((abs(stride), extent) for extent, stride in axes):
        if stride < span:
            return STRIDED | OVERLAPS
        span += (extent - 1) * stride
    return STRIDED


def alignment_class(address, most):
    exponent = 0
    while 2 ** (exponent + 1) <= most and address % 2 ** (exponent + 1) == 0:
        exponent += 1
    return exponent


def strides_of(arg):
    return dense_strides(arg["shape"]) if arg["strides"] is None else arg["strides"]


def address_of(arg):
    return 0 if 0 in arg["shape"] else arg["address"]


def data_of(arg):
    """What is equal for two arguments with the same data; None for no data."""
    axes = [(extent, stride) for extent, stride in zip(arg["shape"], strides_of(arg))]
    return address_of(arg) and (address_of(arg), arg["dtype"], len(axes),
                                tuple((extent, stride if extent > 1 else None) for extent, stride in axes))


def first_equal(things, index):
    """1 + the first index with an equal thing, when that is before `index`."""
    first = things.index(things[index]) if things[index] else index
    return first + 1 if first < index else 0


# ---- the signature

def slots(request, index, gradients):
    name, kind, access, dtype, rank, *rest = request["params"][index]
    arg = request["args"][index]
    mode, policy, *_ = request["launch"]
    differentiable = "differentiable" in rest
    add = differentiable and access in ("in", "inout")
    read = differentiable and access in ("out", "inout")
    wanted, present = add and arg["grad"], read and arg["read"] is not None
    gdtype = DTYPES[arg["gdtype"]] or DTYPES["f32" if arg["dtype"] in ("f16", "bf16") else arg["dtype"]]
    chosen = POLICIES[arg["policy"]] or POLICIES[policy] or POLICIES["auto"]
    writes = 0
    for code in request["codes"]:
        writes |= 1 << code_params(request, code)[index][0]
    out = bytes([add | wanted << 1 | read << 2 | present << 3])
    out += bytes([chosen if add and not wanted else 0, writes if add else 0])
    if wanted:
        strides = arg["add"][1]
        if strides is None:
            strides = dense_strides(arg["shape"], strides_of(arg))
        out += bytes([gdtype, layout_class(arg["shape"], strides), first_equal(gradients, index)])
    else:
        out += bytes(3)
    if present:
        strides = dense_strides(arg["shape"]) if arg["read"][1] is None else arg["read"][1]
        out += bytes([gdtype, layout_class(arg["shape"], strides)])
    else:
        out += bytes(2)
    return out


def encode(request, kernel):
    architecture, *identity = request["device"]
    vendor, device, driver, features = (int(word, 0) for word in identity)
    mode, _, *launch_flags = request["launch"]
    backward = mode == "backward"
    out = b"DS" + bytes([2])
    for text in ("compiler", architecture):
        out += bytes([len(text)]) + text.encode()
    out += struct.pack("<IIIQ", vendor, device, driver, features) + kernel + bytes([MODES[mode]])
    out += struct.pack("<Q", flags(launch_flags, LAUNCH_FLAGS) & ~48 if backward else 0)
    out += bytes([64, backward and "deterministic" in launch_flags, 0, len(request["args"])])
    data = [arg["kind"] == "tensor" and data_of(arg) for arg in request["args"]]
    gradients = [arg["kind"] == "tensor" and arg["grad"] and arg["add"] and arg["add"][0] for arg in request["args"]]
    for index, arg in enumerate(request["args"]):
        _, kind, access, *_ = request["params"][index]
        out += bytes([KINDS[kind], ACCESS[access], DTYPES[arg["dtype"]]])
        if kind == "scalar":
            continue
        most = max(code_params(request, code)[index][4] for code in request["codes"])
        out += bytes([len(arg["shape"]), layout_class(arg["shape"], strides_of(arg)),
                      alignment_class(address_of(arg), most), first_equal(data, index)])
        if backward:
            out += slots(request, index, gradients)
    return out


def outputs(request):
    kernel = kernel_hash(request) if xxhash else bytes.fromhex(request["kernel"])
    data = encode(request, kernel)
    digest = hash_of(data).hex() if xxhash else request["hash"]
    return {"kernel": kernel.hex(), "bytes": data.hex(), "hash": digest}


def write():
    text = golden.GOLDEN.read_text()
    lines = [line for line in text.splitlines() if line.split(" ")[0] not in golden.OUTPUTS]
    blocks, requests = "\n".join(lines).strip().split("\n\n"), golden.parse(text)
    out = []
    for block in blocks:
        if block.startswith("request "):
            made = outputs(requests[sum(other.startswith("request ") for other in out)])
            block += "".join(f"\n{name} {made[name]}" for name in golden.OUTPUTS)
        out.append(block)
    golden.GOLDEN.write_text("\n\n".join(out) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    wrong = [r["name"] for r in golden.parse(golden.GOLDEN.read_text())
             if any(r.get(name) != value for name, value in outputs(r).items())]
    sys.exit(f"not as docs/signature.md says: {', '.join(wrong)}" if wrong else 0)
