/* From names to hooks. */
#include "plan_function.h"

#include <elf.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "plan_draft.h"
#include "plan_image.h"
#include "stub_x86_64_doorbell.h"
#include "stub_x86_64_entry.h"
#include "symbol_debug.h"
#include "symbol_name.h"

#define NAME_MOST 4096

/* One search of an image. */
struct search {
    const struct elf_image *image;
    const struct plan_function_request *requests;
    size_t request_count;
    uint8_t *concerned; /* of each request */
    bool is_static;     /* no other image binds to its names */
    bool is_libc;
    bool has_own; /* some request is for the C library's own */
    /* of a static program: the functions by which the C library makes system calls */
    uint64_t *syscall_functions;
    size_t syscall_function_count, syscall_function_capacity;
    struct plan_functions *found;
    struct base_error *error;
};

static int no_memory(struct base_error *error)
{
    return base_fail(error, BASE_ENOMEM, "out of memory");
}

/* --- requests --- */

bool plan_function_concerns(const struct plan_function_request *request, const char *path)
{
    const char *last = strrchr(path, '/');
    if (request->image == NULL)
        return true;
    return fnmatch(request->image, strchr(request->image, '/') == NULL && last != NULL ? last + 1 : path,
                   FNM_EXTMATCH) == 0;
}

static bool request_matches(const struct plan_function_request *request, struct symbol_name *name)
{
    if (request->written)
        return symbol_name_means(name, request->name);
    return strcmp(request->name, name->text) == 0 || fnmatch(request->name, name->text, 0) == 0;
}

bool plan_function_means(const struct plan_function_request *request, const char *name)
{
    struct symbol_name named;
    symbol_name_begin(&named, name, false);
    bool means = request_matches(request, &named);
    symbol_name_end(&named);
    return means;
}

/* May a symbol be what is requested, apart from what its code does? */
static bool may_be_requested(const struct search *search, const struct plan_function_request *request,
                             bool bound)
{
    return request->own ? bound && (search->is_libc || search->is_static) : bound || !request->interposes;
}

/* The first request that means the name, of those that go over others, or of the rest; PLAN_NONE. `bound`:
 * calls of that name may come to the symbol. */
static uint32_t request_of(const struct search *search, const char *name, bool bound, bool over)
{
    struct symbol_name named;
    uint32_t request = PLAN_NONE;
    symbol_name_begin(&named, name, false);
    for (size_t i = 0; i < search->request_count && request == PLAN_NONE; i++)
        if (search->concerned[i] && search->requests[i].over == over &&
            may_be_requested(search, &search->requests[i], bound) &&
            request_matches(&search->requests[i], &named))
            request = (uint32_t)i;
    symbol_name_end(&named);
    return request;
}

/* --- symbols --- */

static int add_function(struct search *search, const struct plan_hookable *function, const char *name)
{
    struct plan_functions *found = search->found;
    if (!base_array_room(found->items, found->count, found->capacity))
        return no_memory(search->error);
    char *copy = strdup(name);
    if (copy == NULL)
        return no_memory(search->error);
    found->items[found->count] = *function;
    found->items[found->count++].name = copy;
    return BASE_OK;
}

/* The name of a function that is defined; false: it is none, or of no length that counts. */
static bool read_function_name(const Elf64_Sym *symbol, const struct elf_section *strings,
                               char name[NAME_MOST])
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol->st_shndx == SHN_UNDEF ||
        symbol->st_name >= strings->size || symbol->st_value == 0)
        return false;
    const char *text = (const char *)strings->bytes + symbol->st_name;
    size_t length = strnlen(text, strings->size - symbol->st_name);
    const char *version = memchr(text, '@', length); /* some linkers write NAME@VERSION in .symtab */
    length = version != NULL && version != text ? (size_t)(version - text) : length;
    if (length == 0 || length >= NAME_MOST)
        return false;
    memcpy(name, text, length);
    name[length] = '\0';
    return true;
}

/* A symbol, and where it stands. */
struct seen {
    const Elf64_Sym *symbol;
    const char *name;
    bool dynamic; /* in .dynsym */
    bool of_file; /* behind the name of a source file: a local one is that file's own */
};

typedef int visit_symbol(void *context, const struct seen *seen);

/* A static program has the C library's hidden functions among its local ones. */
static bool is_bound(const struct search *search, const struct seen *seen)
{
    unsigned binding = ELF64_ST_BIND(seen->symbol->st_info);
    unsigned visibility = ELF64_ST_VISIBILITY(seen->symbol->st_other);
    bool global = binding != STB_LOCAL && visibility != STV_HIDDEN && visibility != STV_INTERNAL;
    if (search->is_libc)
        return true;
    if (!search->is_static)
        return global && seen->dynamic;
    return binding != STB_LOCAL || (!seen->of_file && strncmp(seen->name, "__", 2) == 0);
}

static int add_if_requested(void *context, const struct seen *seen)
{
    struct search *search = context;
    const Elf64_Sym *symbol = seen->symbol;
    const char *name = seen->name;
    bool bound = is_bound(search, seen);
    int result = BASE_OK;
    for (int over = 0; over < 2 && result == BASE_OK; over++) {
        struct plan_hookable function = {.address = symbol->st_value,
                                         .request = request_of(search, name, bound, over != 0),
                                         .resolver = ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC};
        if (function.request != PLAN_NONE && !code_function_is_fragment(name))
            result = add_function(search, &function, name);
    }
    return result;
}

/* Symbols of one table: those of a source file come after its name, hidden ones after an empty name, or
 * first. */
static int visit_table(const struct elf_section *symbols, const struct elf_section *strings,
                       visit_symbol *visit, void *context)
{
    char name[NAME_MOST];
    bool of_file = false;
    int result = BASE_OK;
    for (size_t at = 0; at + sizeof(Elf64_Sym) <= symbols->size && result == BASE_OK;
         at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, symbols->bytes + at, sizeof symbol);
        if (ELF64_ST_TYPE(symbol.st_info) == STT_FILE)
            of_file = symbol.st_name < strings->size && strings->bytes[symbol.st_name] != 0;
        if (read_function_name(&symbol, strings, name))
            result = visit(context, &(struct seen){&symbol, name, symbols->type == SHT_DYNSYM, of_file});
    }
    return result;
}

static int visit_symbols(const struct elf_image *from, visit_symbol *visit, void *context)
{
    int result = BASE_OK;
    for (size_t i = 0; i < elf_image_section_count(from) && result == BASE_OK; i++) {
        struct elf_section symbols, strings;
        if (!elf_image_section_header(from, i, &symbols) ||
            (symbols.type != SHT_SYMTAB && symbols.type != SHT_DYNSYM) ||
            !elf_image_section_at(from, i, &symbols) || symbols.bytes == NULL ||
            !elf_image_section_at(from, symbols.link, &strings) || strings.bytes == NULL)
            continue;
        result = visit_table(&symbols, &strings, visit, context);
    }
    return result;
}

struct names {
    plan_function_visit *visit;
    void *context;
};

static int visit_name(void *context, const struct seen *seen)
{
    const struct names *names = context;
    names->visit(names->context, seen->name);
    return BASE_OK;
}

void plan_function_names(const struct elf_image *image, plan_function_visit *visit, void *context)
{
    struct names names = {visit, context};
    struct elf_image *mini = symbol_debug_mini(image);
    visit_symbols(image, visit_name, &names);
    if (mini != NULL) {
        visit_symbols(mini, visit_name, &names);
        elf_image_close(mini);
    }
}

static int by_address(const void *left, const void *right)
{
    const struct plan_hookable *a = left, *b = right;
    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    return a->request < b->request ? -1 : a->request > b->request;
}

/* The same function once more, for a later request. */
static void merge_alias(const struct search *search, struct plan_hookable *function,
                        const struct plan_hookable *alias)
{
    function->resolver |= alias->resolver;
    if (function->over == 0 && !search->requests[function->request].over &&
        search->requests[alias->request].over)
        function->over = alias->request + 1;
}

/* One function for each address: that of the first request, and of the first that goes over it. */
static void drop_aliases(const struct search *search)
{
    struct plan_functions *found = search->found;
    size_t kept = 0;
    if (found->count > 1)
        qsort(found->items, found->count, sizeof *found->items, by_address);
    for (size_t i = 0; i < found->count; i++) {
        if (kept > 0 && found->items[kept - 1].address == found->items[i].address) {
            merge_alias(search, &found->items[kept - 1], &found->items[i]);
            free(found->items[i].name);
        } else {
            found->items[kept++] = found->items[i];
        }
    }
    found->count = kept;
}

/* --- resolvers --- */

static bool add_slot(struct plan_hookable *function, uint64_t slot)
{
    uint64_t *slots = realloc(function->slots, (function->slot_count + 1) * sizeof *slots);
    if (slots == NULL)
        return false;
    function->slots = slots;
    slots[function->slot_count++] = slot;
    return true;
}

static bool note_slot(struct plan_functions *found, const Elf64_Rela *relocation)
{
    for (size_t i = 0; i < found->count; i++)
        if (found->items[i].resolver && (uint64_t)relocation->r_addend == found->items[i].address)
            return add_slot(&found->items[i], relocation->r_offset);
    return true;
}

static int find_slots(const struct elf_image *image, struct plan_functions *found, struct base_error *error)
{
    struct elf_section section;
    for (size_t i = 0; i < elf_image_section_count(image); i++) {
        if (!elf_image_section_header(image, i, &section) || section.type != SHT_RELA ||
            (section.flags & SHF_ALLOC) == 0 || !elf_image_section_at(image, i, &section) ||
            section.bytes == NULL)
            continue;
        for (size_t at = 0; at + sizeof(Elf64_Rela) <= section.size; at += sizeof(Elf64_Rela)) {
            Elf64_Rela relocation;
            memcpy(&relocation, section.bytes + at, sizeof relocation);
            if (ELF64_R_TYPE(relocation.r_info) == R_X86_64_IRELATIVE && !note_slot(found, &relocation))
                return no_memory(error);
        }
    }
    return BASE_OK;
}

/* --- the C library's own --- */

static void note_reserved(const struct search *search, uint64_t address)
{
    for (size_t i = 0; i < search->found->count; i++)
        if (search->found->items[i].address == address)
            search->found->items[i].reserved = true;
}

/* What the C library makes system calls by: musl's __syscall_ret, __syscall_cp and, for fork, _Fork; glibc's
 * __syscall_cancel; dietlibc's __unified_syscall. */
static bool is_syscall_function_name(const char *name)
{
    return (strncmp(name, "__", 2) == 0 && strstr(name, "syscall") != NULL) || strcmp(name, "_Fork") == 0;
}

static int note_reserved_symbol(void *context, const struct seen *seen)
{
    struct search *search = context;
    if (strncmp(seen->name, "__", 2) == 0)
        note_reserved(search, seen->symbol->st_value);
    if (!is_syscall_function_name(seen->name))
        return BASE_OK;
    if (!base_array_room(search->syscall_functions, search->syscall_function_count,
                         search->syscall_function_capacity))
        return no_memory(search->error);
    search->syscall_functions[search->syscall_function_count++] = seen->symbol->st_value;
    return BASE_OK;
}

static bool is_syscall_function(const struct search *search, uint64_t address)
{
    for (size_t i = 0; i < search->syscall_function_count; i++)
        if (search->syscall_functions[i] == address)
            return true;
    return false;
}

/* 1, 0, or BASE_ENOMEM. What cannot be decoded as a whole is not hooked anyway. */
static int makes_system_call(const struct search *search, const struct plan_draft *draft, uint64_t address)
{
    struct code_instructions code = {0};
    uint32_t index = code_functions_find(draft->functions, address);
    uint64_t where;
    bool makes = false;
    if (index == CODE_NONE)
        return 0;
    int result = code_instructions_decode(&draft->survey->text, address, draft->functions->items[index].end,
                                          &code, &where);
    for (size_t i = 0; i < code.count && !makes; i++)
        makes = code.items[i].flow == CODE_SYSTEM || is_syscall_function(search, code.items[i].target);
    code_instructions_free(&code);
    return result < 0 ? no_memory(search->error) : makes;
}

static int is_requested(const struct search *search, const struct plan_draft *draft,
                        const struct plan_hookable *function)
{
    if (!search->is_static || !search->requests[function->request].own || function->reserved)
        return 1;
    return makes_system_call(search, draft, function->address);
}

/* A program's own functions are dropped, except for requests that go over whatever has the name. */
static int drop_functions_of_program(struct search *search, const struct plan_draft *draft)
{
    struct plan_functions *found = search->found;
    size_t kept = 0;
    int result = BASE_OK;
    for (size_t i = 0; i < found->count; i++) {
        struct plan_hookable *function = &found->items[i];
        int requested = result < 0 ? 1 : is_requested(search, draft, function);
        result = requested < 0 ? requested : result;
        if (requested == 0 && function->over == 0) {
            free(function->name);
            free(function->slots);
            continue;
        }
        if (requested == 0) {
            function->request = function->over - 1;
            function->over = 0;
        }
        found->items[kept++] = *function;
    }
    found->count = kept;
    return result;
}

/* --- hooks --- */

/* A function that does nothing but return, as _dl_debug_state, with unused bytes behind it. Where those end
 * is not known, but control never comes there. */
static enum stub_reason plan_empty_function(const struct plan_draft *draft, uint64_t address,
                                            struct plan_hook *hook)
{
    size_t available = 0;
    enum stub_reason reason = STUB_FINE;
    const uint8_t *bytes = code_text_at(&draft->survey->text, address, &available);
    if (bytes == NULL || !stub_x86_64_doorbell_fits(bytes, available))
        return STUB_REASON_ENTRY_SHORT;
    unsigned length = stub_x86_64_entry_length(bytes, available, STUB_X86_64_ENTRY_JUMP, &reason);
    if (reason == STUB_FINE && code_survey_entered(draft->survey, address, address + length))
        return STUB_REASON_ENTRY_BRANCH;
    hook->length = (uint8_t)length;
    memcpy(hook->old, bytes, length);
    return reason;
}

static void plan_hook_of(const struct plan_draft *draft, struct plan_hookable *function)
{
    struct plan_hook hook;
    uint32_t index = code_functions_find(draft->functions, function->address);
    if (function->resolver)
        function->reason = STUB_REASON_ENTRY_RESOLVER;
    else if (index == CODE_NONE)
        function->reason = STUB_REASON_OUTSIDE;
    else if (draft->functions->items[index].start != function->address)
        function->reason = STUB_REASON_ENTRY_SHARED;
    else
        function->reason = (uint8_t)plan_hooks_one(draft, index, true, &hook);
    if (function->reason == STUB_REASON_ENTRY_SHORT)
        function->reason = (uint8_t)plan_empty_function(draft, function->address, &hook);
    if (function->reason != STUB_FINE)
        return;
    function->length = hook.length;
    memcpy(function->old, hook.old, sizeof function->old);
}

static int plan_hooks_of(struct search *search, const struct elf_image *mini)
{
    struct plan_draft draft = {.image = search->image};
    struct plan_draft_basis basis = {0};
    struct plan_functions *found = search->found;
    uint64_t *taken = calloc(found->count, sizeof *taken);
    if (taken == NULL)
        return no_memory(search->error);
    for (size_t i = 0; i < found->count; i++)
        taken[i] = found->items[i].address;
    const struct code_survey_options options = {taken, found->count};
    int result = mini != NULL ? code_bounds_add_symbols(&basis.bounds, mini, search->error) : BASE_OK;
    if (result == BASE_OK)
        result = plan_draft_begin(&draft, &basis, search->image, &options, search->error);
    if (result == BASE_OK && search->has_own)
        result = drop_functions_of_program(search, &draft);
    for (size_t i = 0; i < found->count && result == BASE_OK; i++)
        plan_hook_of(&draft, &found->items[i]);
    plan_draft_end(&draft, &basis);
    free(taken);
    return result;
}

/* --- the search --- */

/* Requests for what is beside one function mostly follow each other. */
static bool note_concerned(struct search *search, const char *path)
{
    const char *beside = NULL;
    bool any = false, defined = true;
    for (size_t i = 0; i < search->request_count; i++) {
        const struct plan_function_request *request = &search->requests[i];
        bool concerned = plan_function_concerns(request, path);
        if (concerned && request->beside != NULL && request->beside != beside) {
            beside = request->beside;
            defined = plan_image_defines(search->image, (const char *const[]){beside, NULL});
        }
        search->concerned[i] = concerned && (request->beside == NULL || defined);
        any |= search->concerned[i] != 0;
        search->has_own |= search->concerned[i] && request->own;
    }
    return any;
}

static int search_image(struct search *search)
{
    struct elf_image *mini = symbol_debug_mini(search->image);
    int result = visit_symbols(search->image, add_if_requested, search);
    if (result == BASE_OK && mini != NULL)
        result = visit_symbols(mini, add_if_requested, search);
    drop_aliases(search);
    if (result == BASE_OK && search->is_static && search->has_own && search->found->count)
        result = visit_symbols(search->image, note_reserved_symbol, search);
    if (result == BASE_OK)
        result = find_slots(search->image, search->found, search->error);
    if (result == BASE_OK && search->found->count)
        result = plan_hooks_of(search, mini);
    if (mini != NULL)
        elf_image_close(mini);
    return result;
}

int plan_function_plan(const struct elf_image *image, const char *path,
                       const struct plan_function_request *requests, size_t request_count,
                       struct plan_functions *functions, struct base_error *error)
{
    struct search search = {.image = image,
                            .requests = requests,
                            .request_count = request_count,
                            .concerned = calloc(request_count + 1, 1),
                            .is_static = plan_image_is_static(image),
                            .is_libc = plan_image_is_libc(image),
                            .found = functions,
                            .error = error};
    *functions = (struct plan_functions){0};
    if (search.concerned == NULL)
        return no_memory(error);
    int result = BASE_OK;
    if (elf_image_machine(image) != EM_X86_64)
        result = base_fail(error, BASE_EUNSUPPORTED, "%s: no program for x86-64", path);
    else if (note_concerned(&search, path))
        result = search_image(&search);
    free(search.concerned);
    free(search.syscall_functions);
    if (result < 0)
        plan_functions_free(functions);
    return result;
}

void plan_functions_free(struct plan_functions *functions)
{
    for (size_t i = 0; i < functions->count; i++) {
        free(functions->items[i].name);
        free(functions->items[i].slots);
    }
    free(functions->items);
    *functions = (struct plan_functions){0};
}
