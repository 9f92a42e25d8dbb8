/*
 * cuda_binary.c - machine code: cubins (ELF files for one architecture) and fatbins (containers of
 * several). Whether they are whole, and, for cubins, which entries they have and what device they
 * are for. What lies in a fatbin, the driver alone can tell.
 *
 * In: bytes of any origin. Out: what is wrong in words. Nothing outside of the bytes is read, and
 * nothing is handed to the driver whose parts do not lie within it: the driver is told no size.
 */
#include "cuda_code.h"

#include <elf.h>
#include <string.h>

#define ABI_WITH_SM_IN_SECOND_BYTE 8u   /* EI_ABIVERSION of CUDA 12.8 and later */
#define ENTRY_BIT                  0x10 /* st_other of a kernel: STO_CUDA_ENTRY */

#define FATBIN_MAGIC UINT32_C(0xBA55ED50)

/* ---- cubin */

static bool within(const cuda__cubin *cubin, uint64_t offset, uint64_t size_bytes)
{
    return offset <= cubin->size_bytes && size_bytes <= cubin->size_bytes - offset;
}

static const char *check_sections(const cuda__cubin *cubin, const Elf64_Ehdr *head)
{
    if (head->e_shnum == 0 || head->e_shentsize != sizeof(Elf64_Shdr) ||
        !within(cubin, head->e_shoff, (uint64_t)head->e_shnum * sizeof(Elf64_Shdr))) {
        return "its table of sections does not lie within it: it is cut off";
    }
    for (uint32_t i = 0; i < head->e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, cubin->bytes + head->e_shoff + i * sizeof section, sizeof section);
        if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL &&
            !within(cubin, section.sh_offset, section.sh_size)) {
            return "one of its sections does not lie within it: it is cut off";
        }
    }
    if (head->e_phnum > 0 &&
        (head->e_phentsize != sizeof(Elf64_Phdr) ||
         !within(cubin, head->e_phoff, (uint64_t)head->e_phnum * sizeof(Elf64_Phdr)))) {
        return "its table of segments does not lie within it: it is cut off";
    }
    return NULL;
}

const char *cuda__cubin_open(cuda__cubin *cubin, const void *bytes, uint64_t size_bytes)
{
    Elf64_Ehdr head;
    *cubin = (cuda__cubin){.bytes = bytes, .size_bytes = bytes ? size_bytes : 0};
    if (cubin->size_bytes < sizeof head) {
        return "it is shorter than the header of an ELF file";
    }
    memcpy(&head, bytes, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_ident[EI_DATA] != ELFDATA2LSB) {
        return "it is no 64-bit ELF file";
    }
    if (head.e_machine != EM_CUDA) {
        return "it is an ELF file for another machine";
    }
    if (head.e_type == ET_REL) {
        return "it is not linked (relocatable device code)";
    }
    cubin->architecture = head.e_ident[EI_ABIVERSION] >= ABI_WITH_SM_IN_SECOND_BYTE
                              ? head.e_flags >> 8 & 0xFF
                              : head.e_flags & 0xFF;
    return check_sections(cubin, &head);
}

static void read_section(const cuda__cubin *cubin, uint32_t index, Elf64_Shdr *section)
{
    Elf64_Ehdr head;
    memcpy(&head, cubin->bytes, sizeof head);
    *section = (Elf64_Shdr){.sh_type = SHT_NULL};
    if (index < head.e_shnum) {
        memcpy(section, cubin->bytes + head.e_shoff + index * sizeof *section, sizeof *section);
    }
}

/* Whether a symbol is a kernel of that name; counts kernels. */
static bool is_entry(const cuda__cubin *cubin, const Elf64_Sym *symbol, const Elf64_Shdr *names,
                     const char *asked, uint32_t *count)
{
    if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || !(symbol->st_other & ENTRY_BIT) ||
        symbol->st_name >= names->sh_size) {
        return false;
    }
    const char *name = (const char *)cubin->bytes + names->sh_offset + symbol->st_name;
    (*count)++;
    return cuda__name_matches(name, strnlen(name, names->sh_size - symbol->st_name), asked);
}

bool cuda__cubin_has(const cuda__cubin *cubin, const char *name, uint32_t *out_count)
{
    Elf64_Ehdr head;
    bool found = false;
    memcpy(&head, cubin->bytes, sizeof head);
    *out_count = 0;
    for (uint32_t i = 0; i < head.e_shnum; i++) {
        Elf64_Shdr table, names;
        read_section(cubin, i, &table);
        if (table.sh_type != SHT_SYMTAB) {
            continue;
        }
        read_section(cubin, table.sh_link, &names);
        if (names.sh_type != SHT_STRTAB) {
            continue;
        }
        for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            memcpy(&symbol, cubin->bytes + table.sh_offset + at, sizeof symbol);
            found |= is_entry(cubin, &symbol, &names, name, out_count);
        }
    }
    return found;
}

/* ---- fatbin */

/* What is wrong with it, or NULL. */
static const char *check_fatbin(const void *bytes, uint64_t size_bytes)
{
    struct {
        uint32_t magic;
        uint16_t version, header_bytes;
        uint64_t payload_bytes;
    } head;
    if (!bytes || size_bytes < sizeof head) {
        return "it is shorter than the header of a fatbin";
    }
    memcpy(&head, bytes, sizeof head);
    if (head.magic != FATBIN_MAGIC) {
        return "it does not begin as a fatbin";
    }
    if (head.header_bytes < sizeof head || head.header_bytes > size_bytes ||
        head.payload_bytes > size_bytes - head.header_bytes) {
        return "it is cut off: its header tells of more bytes than there are";
    }
    return NULL;
}

/* ---- inspection */

static ddisp_status inspect_entry(const ddisp_backend_services *services,
                                  const ddisp_backend_code *code, const ddisp_entry *entry,
                                  const cuda__cubin *cubin)
{
    char name[CUDA__ENTRY_NAME_BYTES];
    uint32_t count = 0;
    backend_native_places places;
    cuda__entry_name(entry, name);
    if (cubin && !cuda__cubin_has(cubin, name, &count)) {
        return backend_fail(services, DDISP_STATUS_NOT_FOUND, 0,
                            "kernel %s: the cubin has no entry '%s' (declare it extern \"C\"; it "
                            "has %u others)",
                            code->kernel_name, name, count);
    }
    return entry->native ? backend_native_place(services, code, entry, &places) : DDISP_STATUS_OK;
}

ddisp_status cuda__binary_inspect(const ddisp_backend_services *services,
                                  const ddisp_backend_code *code, ddisp_backend_code_info *info)
{
    cuda__cubin cubin;
    bool single = cuda__format_of(code->code) == CUDA__FORMAT_CUBIN;
    const char *why = single ? cuda__cubin_open(&cubin, code->code->bytes, code->code->size_bytes)
                             : check_fatbin(code->code->bytes, code->code->size_bytes);
    if (why) {
        return backend_fail(services, DDISP_STATUS_CODE_INVALID, 0,
                            "kernel %s: the %s code is malformed: %s", code->kernel_name,
                            code->code->format, why);
    }
    for (uint32_t i = 0; i < code->code->entry_count; i++) {
        ddisp_status status =
            inspect_entry(services, code, &code->code->entries[i], single ? &cubin : NULL);
        if (status != DDISP_STATUS_OK) {
            return status;
        }
    }
    info->switch_mask = 0;
    info->flags = 0;
    return DDISP_STATUS_OK;
}

/* Machine code runs on devices of its own major capability, of its own minor or a later one. */
ddisp_status cuda__cubin_fits(const ddisp_backend_services *services, const cuda__cubin *cubin,
                              uint32_t major, uint32_t minor)
{
    uint32_t own_major = cubin->architecture / 10, own_minor = cubin->architecture % 10;
    if (own_major == major && own_minor <= minor) {
        return DDISP_STATUS_OK;
    }
    return backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0,
                        "the cubin is for sm_%u, which runs on sm_%u to sm_%u9, and the device is "
                        "sm_%u",
                        cubin->architecture, cubin->architecture, own_major, major * 10 + minor);
}

ddisp_status cuda__binary_fits(const cuda__device *device, const ddisp_backend_code *code)
{
    const ddisp_backend_services *services = device->services;
    cuda__cubin cubin;
    if (cuda__format_of(code->code) == CUDA__FORMAT_FATBIN) {
        return DDISP_STATUS_OK;
    }
    const char *why = cuda__cubin_open(&cubin, code->code->bytes, code->code->size_bytes);
    if (why) {
        return backend_fail(services, DDISP_STATUS_UNSUPPORTED, 0, "the cubin is malformed: %s",
                            why);
    }
    return cuda__cubin_fits(services, &cubin, device->capability_major, device->capability_minor);
}
