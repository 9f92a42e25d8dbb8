/*
 * cuda_elf.h - small cubins made by hand: ELF files with kernels as symbols and no code.
 */
#ifndef CUDA_ELF_H
#define CUDA_ELF_H

#include <stdint.h>

#define ELF_CAPACITY 2048u

/** How a file is to look. */
typedef struct elf_wish {
    uint8_t abi_version; /* 8: sm in the second byte of flags, 7: in the first */
    uint32_t flags;
    const char *kernels[4]; /* NULL ends */
    const char *function;   /* that is no kernel; NULL: none */
} elf_wish;

/** Writes a file of up to ELF_CAPACITY bytes, returns its size. */
uint64_t elf_make(const elf_wish *wish, unsigned char *bytes);
/** For sm_90, as CUDA 13 writes it, with these kernels. */
uint64_t elf_sm_90(const char *first, const char *second, unsigned char *bytes);

#endif
