"""Compiles the shaders of this folder: spirv.py GLSLANG INCLUDE HEADER. Writes one header with an array for each
module, spirv_<kernel>_<mode>, where mode is forward, backward, backward_cas (compare-and-swap) or
backward_partitioned (sums lanes by an extension of NVIDIA's)."""
import concurrent.futures
import pathlib
import subprocess
import sys
import tempfile

glslang, include, header = sys.argv[1:]
here = pathlib.Path(__file__).resolve().parent
typed = ["f32", "f64", "f16", "bf16"]
kernels = [(name, name, []) for name in ("mul", "rows", "order", "many")]
kernels += [(f"{name}_{kind}", name, [f"-DTYPE={kind}"]) for name in ("gather", "replay") for kind in typed]
modes = {"forward": ["-DFORWARD"], "backward": [], "backward_cas": ["-DDDISP_CAS"],
         "backward_partitioned": ["-DDDISP_PARTITIONED"]}
modules = [(f"spirv_{array}_{mode}", source, options + defines) for array, source, options in kernels
           for mode, defines in modes.items()]


def compiled(module):
    name, source, options = module
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "module.h"
        subprocess.run([glslang, "-V", "--quiet", "--target-env", "vulkan1.2", f"-I{include}", *options, "--vn", name,
                        "-o", output, here / f"{source}.comp"], check=True)
        lines = output.read_text().splitlines()
    return "\n".join(line for line in lines if not line.startswith("#"))


with concurrent.futures.ThreadPoolExecutor(2) as pool:
    texts = list(pool.map(compiled, modules))
pathlib.Path(header).write_text("#include <stdint.h>\n" + "\n".join(texts) + "\n")
