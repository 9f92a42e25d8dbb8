#!/usr/bin/env python3
# bins_spirv.py GLSLANG INCLUDE SOURCE OUTPUT - compiles bins.comp for each type, group size and way
# to add into one header.
import subprocess
import sys
import tempfile

glslang, include, source, output = sys.argv[1:]
with open(output, 'w', encoding='ascii') as header, tempfile.TemporaryDirectory() as folder:
    for kind, out in (('f16', 'f32'), ('bf16', 'f32'), ('f32', 'f32'), ('f64', 'f64')):
        for threads in (64, 256, 1000):
            for suffix, define in (('', []), ('_cas', ['-DDDISP_CAS'])):
                made = f'{folder}/made.h'
                subprocess.run([glslang, '-V', '--quiet', '--target-env', 'vulkan1.2', f'-I{include}',
                                f'-DTYPE={kind}', f'-DOUT={out}', f'-DDDISP_GROUP_SIZE={threads}', *define,
                                '--vn', f'bins_{kind}_{threads}{suffix}_spv', '-o', made, source],
                               check=True, stdout=subprocess.DEVNULL)
                with open(made, encoding='ascii') as text:
                    header.write(text.read().replace('#pragma once', ''))
