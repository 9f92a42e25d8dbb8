#!/usr/bin/env python3
"""Writes signature_vectors.h: requests, their canonical bytes and their hashes.

An implementation of docs/signature.md of its own, so that the one in lib/signature.c is held against
something. Needs the xxhash module (pip install xxhash). Vectors are never changed, only added: other
bytes for the same request mean a new version of the encoding.
"""
import struct
import xxhash

FORWARD, BACKWARD = 1, 2
IN, OUT, INOUT = 1, 2, 3
I32, F16, BF16, F32, F64 = 7, 10, 11, 12, 13
DENSE, STRIDED, BROADCAST = 1, 2, 4
AUTO, SPECIALIZE, GUARD, SINK, SCRATCH, REJECT = 1, 2, 3, 4, 5, 6


def dense(shape):
    strides, step = [], 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    return strides


def layout_class(shape, strides):
    if 0 in shape:
        return DENSE
    axes = [(extent, stride) for extent, stride in zip(shape, strides) if extent != 1]
    if any(stride == 0 for _, stride in axes):
        return BROADCAST
    wanted = dense([extent for extent, _ in axes])
    return DENSE if [stride for _, stride in axes] == wanted else STRIDED


def tensor(name, access, dtype=F32, shape=(8,), strides=None, address=4096, alias=0, add=None,
           read=None):
    """add: None, ('frozen', policy) or ('grad', dtype, strides); read: None, 'absent' or (dtype, strides)."""
    strides = dense(shape) if strides is None else strides
    return dict(kind=0, name=name, access=access, dtype=dtype, shape=list(shape), strides=strides,
                address=address, alias=alias, add=add, read=read)


def scalar(name, dtype=F32):
    return dict(kind=1, name=name, access=IN, dtype=dtype)


def alignment_class(address, most):
    exponent = 0
    while 2 ** (exponent + 1) <= most and address % 2 ** (exponent + 1) == 0:
        exponent += 1
    return exponent


def encode(v):
    out = b'DS' + bytes([2])
    for text in (v['backend'], v['architecture']):
        out += bytes([len(text)]) + text.encode()
    out += struct.pack('<IIIQ', v['vendor'], v['device'], 0, v['features'])
    out += bytes.fromhex(v['kernel']) + bytes([v['mode']])
    out += struct.pack('<Q', v['flags'] & ~16 if v['mode'] == BACKWARD else 0)
    out += bytes([64, 0, 0, len(v['params'])])
    for p in v['params']:
        out += bytes([p['kind'], p['access'], p['dtype']])
        if p['kind'] == 1:
            continue
        out += bytes([len(p['shape']), layout_class(p['shape'], p['strides']),
                      alignment_class(p['address'], v['alignment']), p['alias']])
        if v['mode'] != BACKWARD:
            continue
        add, read = p['add'], p['read']
        wanted = add is not None and add[0] == 'grad'
        present = read not in (None, 'absent')
        out += bytes([(add is not None) | wanted << 1 | (read is not None) << 2 | present << 3])
        out += bytes([add[1] if add and not wanted else 0])
        out += bytes([1 if add else 0])  # write modes: all add atomically
        out += bytes([add[1], layout_class(p['shape'], add[2])] if wanted else [0, 0])
        out += bytes([0])  # no two gradients share memory
        out += bytes([read[0], layout_class(p['shape'], read[1])] if present else [0, 0])
    return out


CUDA = dict(backend='cuda', architecture='sm_90', vendor=0x10de, device=0x2335, features=0)
VULKAN = dict(backend='vulkan', architecture='vulkan1.3 10005:0000', vendor=0x10005, device=0,
              features=0x32fe9d217ffff)
HOST = dict(backend='host', architecture='x86_64', vendor=0, device=0, features=0)
KERNEL = '000102030405060708090a0b0c0d0e0f'
N = [1]


def mul(device, mode, a, b, flags=0):
    upstream = (F32, N)
    return dict(device, mode=mode, kernel=KERNEL, flags=flags, alignment=0, params=[
        tensor('a', IN, add=a, address=0x10000), tensor('b', IN, add=b, address=0x20000),
        tensor('y', OUT, read=upstream, address=0x30000)])


GRAD = ('grad', F32, N)
FROZEN = ('frozen', AUTO)
vectors = [
    mul(CUDA, FORWARD, GRAD, FROZEN),
    mul(CUDA, BACKWARD, GRAD, GRAD),
    mul(CUDA, BACKWARD, GRAD, FROZEN),
    mul(CUDA, BACKWARD, FROZEN, GRAD),
    mul(VULKAN, BACKWARD, GRAD, FROZEN),
    mul(HOST, BACKWARD, GRAD, ('frozen', SCRATCH)),
    mul(CUDA, BACKWARD, GRAD, FROZEN, flags=1 | 2 | 4 | 8 | 16),
    dict(CUDA, mode=BACKWARD, kernel='f' * 32, flags=1, alignment=16, params=[
        tensor('x', IN, F16, (4, 1, 8), [16, 5, 2], address=0x1004, add=('grad', F32, [8, 8, 1])),
        tensor('n', IN, I32, (4, 8), address=0x2000),
        scalar('k'),
        scalar('m', F64),
        tensor('z', INOUT, F32, (4, 8), [8, 1], address=0x3008, add=('grad', F32, [8, 1]),
               read=(F32, [0, 0])),
        tensor('p', OUT, F64, (), address=0x4000, read='absent'),
        tensor('q', OUT, BF16, (0, 3), [7, 7], address=0, read=(F32, [3, 1]))]),
    dict(HOST, mode=FORWARD, kernel='0' * 32, flags=4, alignment=4, params=[
        tensor('v', IN, BF16, (3, 2), [0, 1], address=0x1002), tensor('w', IN, BF16, (2,), address=0x1002, alias=1),
        tensor('u', OUT, F32, (2, 1, 3), [3, 0, 1], address=0x2000)]),
    dict(CUDA, mode=FORWARD, kernel=KERNEL, flags=0, alignment=0, params=[]),
]


def array(values):
    return '{' + ', '.join(str(v) for v in values) + '}' if values else '{0}'


def slot(p):
    add, read = p.get('add'), p.get('read')
    wanted = add is not None and add[0] == 'grad'
    present = read not in (None, 'absent')
    return '{%d, %d, %d, %d, %s}, {%d, %d, 0, %d, %s}' % (
        add is not None, wanted, add[1] if add and not wanted else 0, add[1] if wanted else 0,
        array(add[2] if wanted else []), read is not None, present, read[0] if present else 0,
        array(read[1] if present else []))


def write(out):
    out.write('/* Made by signature_vectors.py. */\n/* clang-format off */\n')
    out.write('static const struct vector vectors[] = {\n')
    for v in vectors:
        data = encode(v)
        digest = xxhash.xxh3_128_intdigest(data)
        kernel = bytes.fromhex(v['kernel'])
        out.write('    {%d, "%s", "%s", 0x%x, 0x%x, 0x%xu, 0x%xu, 0x%xu, %d, %d, %d, {\n' % (
            v['mode'], v['backend'], v['architecture'], v['vendor'], v['device'], v['features'],
            int.from_bytes(kernel[:8], 'little'), int.from_bytes(kernel[8:], 'little'), v['flags'],
            v['alignment'], len(v['params'])))
        for p in v['params'] or [scalar('none')]:
            shape = p.get('shape', [])
            out.write('        {%d, "%s", %d, %d, %d, %s, %s, 0x%x, %d, %s},\n' % (
                p['kind'], p['name'], p['access'], p['dtype'], len(shape), array(shape),
                array(p.get('strides', [])), p.get('address', 0), p.get('alias', 0), slot(p)))
        out.write('    }, %d,\n' % len(data))
        for start in range(0, len(data), 24):
            out.write('     "%s"\n' % ''.join('\\x%02x' % byte for byte in data[start:start + 24]))
        out.write('     , 0x%xu, 0x%xu},\n' % (digest & 2**64 - 1, digest >> 64))
    out.write('};\n')


if __name__ == '__main__':
    import os
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'signature_vectors.h'), 'w') as header:
        write(header)
