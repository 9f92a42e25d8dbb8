/*
 * dlpack_dtype.c - element types: DLPack's code, bits and lanes on one side, dtypes on the other.
 */
#include "dlpack.h"

#include <stdio.h>

/* Codes of DLPack. */
enum { INT = 0, UINT = 1, FLOAT = 2, BFLOAT = 4, COMPLEX = 5, BOOL = 6 };

static const ddisp__dlpack_dtype types[] = {
    [DDISP_DTYPE_BOOL] = {BOOL, 8, 1},    [DDISP_DTYPE_U8] = {UINT, 8, 1},
    [DDISP_DTYPE_I8] = {INT, 8, 1},       [DDISP_DTYPE_U16] = {UINT, 16, 1},
    [DDISP_DTYPE_I16] = {INT, 16, 1},     [DDISP_DTYPE_U32] = {UINT, 32, 1},
    [DDISP_DTYPE_I32] = {INT, 32, 1},     [DDISP_DTYPE_U64] = {UINT, 64, 1},
    [DDISP_DTYPE_I64] = {INT, 64, 1},     [DDISP_DTYPE_F16] = {FLOAT, 16, 1},
    [DDISP_DTYPE_BF16] = {BFLOAT, 16, 1}, [DDISP_DTYPE_F32] = {FLOAT, 32, 1},
    [DDISP_DTYPE_F64] = {FLOAT, 64, 1},
};

ddisp__dlpack_dtype ddisp__dlpack_dtype_of(ddisp_dtype dtype)
{
    return types[dtype];
}

ddisp_dtype ddisp__dlpack_dtype_from(ddisp__dlpack_dtype dtype)
{
    for (uint32_t i = 1; i < sizeof types / sizeof types[0]; i++)
        if (types[i].code == dtype.code && types[i].bits == dtype.bits && dtype.lanes == 1)
            return i;
    return DDISP_DTYPE_ANY;
}

void ddisp__dlpack_dtype_format(ddisp__dlpack_dtype dtype, char *text, size_t capacity)
{
    static const char *const names[] = {
        [INT] = "int",       [UINT] = "uint",       [FLOAT] = "float", [3] = "opaque",
        [BFLOAT] = "bfloat", [COMPLEX] = "complex", [BOOL] = "bool"};
    char lanes[16] = "";
    if (dtype.lanes != 1)
        (void)snprintf(lanes, sizeof lanes, "x%u", dtype.lanes);
    if (dtype.code < sizeof names / sizeof names[0])
        (void)snprintf(text, capacity, "%s%u%s", names[dtype.code], dtype.bits, lanes);
    else
        (void)snprintf(text, capacity, "type code %u of %u bits%s", dtype.code, dtype.bits, lanes);
}
