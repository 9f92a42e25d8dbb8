/*
 * cuda_elf.c - see cuda_elf.h.
 */
#include "cuda_elf.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 1, SYMBOLS = 2, SECTIONS = 3 };

uint64_t elf_make(const elf_wish *wish, unsigned char *bytes)
{
    Elf64_Ehdr head = {.e_type = ET_EXEC,
                       .e_machine = EM_CUDA,
                       .e_version = 1,
                       .e_flags = wish->flags,
                       .e_ehsize = sizeof head,
                       .e_shentsize = sizeof(Elf64_Shdr),
                       .e_shnum = SECTIONS,
                       .e_shstrndx = NAMES};
    Elf64_Shdr sections[SECTIONS] = {{0}};
    Elf64_Sym symbols[6] = {{0}};
    char names[512] = "";
    uint32_t name_bytes = 1, count = 1;
    memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_ident[EI_DATA] = ELFDATA2LSB;
    head.e_ident[EI_VERSION] = EV_CURRENT;
    head.e_ident[EI_OSABI] = 65;
    head.e_ident[EI_ABIVERSION] = wish->abi_version;
    for (uint32_t i = 0; i < 5; i++) {
        const char *name = i < 4 ? wish->kernels[i] : wish->function;
        if (!name) {
            continue;
        }
        symbols[count].st_name = name_bytes;
        symbols[count].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
        symbols[count].st_other = i < 4 ? 0x10 : 0;
        strcpy(names + name_bytes, name);
        name_bytes += (uint32_t)strlen(name) + 1;
        count++;
    }
    uint64_t at = sizeof head;
    memcpy(bytes + at, names, name_bytes);
    sections[NAMES] = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = at, .sh_size = name_bytes};
    at += (name_bytes + 7) / 8 * 8;
    memcpy(bytes + at, symbols, count * sizeof symbols[0]);
    sections[SYMBOLS] = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
                                     .sh_offset = at,
                                     .sh_size = count * sizeof symbols[0],
                                     .sh_link = NAMES,
                                     .sh_entsize = sizeof symbols[0]};
    at += count * sizeof symbols[0];
    head.e_shoff = at;
    memcpy(bytes + at, sections, sizeof sections);
    at += sizeof sections;
    memcpy(bytes, &head, sizeof head);
    if (at > ELF_CAPACITY) {
        abort();
    }
    return at;
}

uint64_t elf_sm_90(const char *first, const char *second, unsigned char *bytes)
{
    const elf_wish wish = {8, 0x6005a04, {first, second, NULL, NULL}, "helper"};
    memset(bytes, 0, ELF_CAPACITY);
    return elf_make(&wish, bytes);
}
