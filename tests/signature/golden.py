"""Reads golden.txt: requests in words, with the bytes and hashes that belong to them.

A request is a run of lines, each a word and its values:

    request NAME
    device ARCHITECTURE VENDOR DEVICE DRIVER FEATURES        of the backend "compiler"
    param NAME tensor|scalar ACCESS DTYPE RANK [differentiable] [items]
    code [FLAG...]                                           begins a code of format "rpn"
    source TEXT        options TEXT        header NAME TEXT  where \\n stands for a new line
    codeparam PARAM WRITE_MODE GRADIENT_DTYPE LAYOUTS GRADIENT_LAYOUTS ALIGNMENT SWITCH
    entry MODE NAME X,Y,Z ID MASK FLAGS SHARED
    native SOURCE PARAM INDEX SPACE SET LOCATION SIZE FLAGS  of the entry before
    launch MODE POLICY [FLAG...]
    tensor DTYPE ADDRESS SHAPE STRIDES [grad] [policy=P] [gdtype=T] [add=ADDRESS:STRIDES] [read=ADDRESS:STRIDES]
    scalar DTYPE                                             arguments, in order
    kernel HEX         bytes HEX           hash HEX          what comes out

SHAPE and STRIDES are numbers with commas between them, or "-" for none (rank 0, or dense).
"""
import pathlib

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden.txt"
OUTPUTS = ("kernel", "bytes", "hash")


def numbers(text):
    return None if text == "-" else [int(number, 0) for number in text.split(",")]


def parse_tensor(words):
    tensor = {"kind": "tensor", "dtype": words[0], "address": int(words[1], 0), "shape": numbers(words[2]) or [],
              "strides": numbers(words[3]), "grad": "grad" in words[4:], "policy": "default", "gdtype": "any",
              "add": None, "read": None}
    for word in words[4:]:
        name, _, value = word.partition("=")
        if name in ("add", "read"):
            address, _, strides = value.partition(":")
            tensor[name] = (int(address, 0), numbers(strides))
        elif value:
            tensor[name] = value
    return tensor


def parse(text):
    requests = []
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        words = rest.split()
        if not word or word.startswith("#"):
            continue
        if word == "request":
            requests.append({"name": rest, "device": ["rpn_1", "0", "0", "0", "0"], "params": [], "codes": [],
                             "launch": None, "args": []})
        request = requests[-1]
        if word in ("device", "launch"):
            request[word] = words
        elif word == "param":
            request["params"].append(words)
        elif word == "code":
            request["codes"].append({"flags": words, "source": "", "options": "", "headers": [], "params": [],
                                     "entries": []})
        elif word in ("source", "options"):
            request["codes"][-1][word] = rest.replace("\\n", "\n")
        elif word == "header":
            name, _, content = rest.partition(" ")
            request["codes"][-1]["headers"].append((name, content.replace("\\n", "\n")))
        elif word == "codeparam":
            request["codes"][-1]["params"].append(words)
        elif word == "entry":
            request["codes"][-1]["entries"].append({"words": words, "natives": []})
        elif word == "native":
            request["codes"][-1]["entries"][-1]["natives"].append([int(w, 0) for w in words])
        elif word == "tensor":
            request["args"].append(parse_tensor(words))
        elif word == "scalar":
            request["args"].append({"kind": "scalar", "dtype": words[0]})
        elif word in OUTPUTS:
            request[word] = rest
        elif word != "request":
            raise ValueError(f"unknown word {word}")
    return requests
