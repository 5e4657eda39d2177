/* Which set of kernels is used: the best that this CPU has, or the one that HOCKET_KERNELS names. */
#include "base/error.h"
#include "base/settings.h"
#include "dtype/kernels.h"

#include <stdatomic.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static bool has_reference(void)
{
    return true;
}

#if defined(__x86_64__)
static bool has_avx2(void)
{
    /* Not every compiler's __builtin_cpu_supports knows "f16c". The operating system's part is AVX's. */
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid(1, &a, &b, &c, &d) &&
           (c & bit_F16C);
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#else
static bool has_avx2(void)
{
    return false;
}

static bool has_avx512(void)
{
    return false;
}
#endif

static bool has_neon(void)
{
    return hki_kernels_neon != NULL; /* part of every arm64 CPU */
}

/* Best first. */
static const struct {
    const char *name;
    const hki_kernel_set *const *set;
    bool (*supported)(void);
} sets[] = {
    {"avx512", &hki_kernels_avx512, has_avx512},
    {"avx2", &hki_kernels_avx2, has_avx2},
    {"neon", &hki_kernels_neon, has_neon},
    {"reference", &(const hki_kernel_set *const){&hki_kernels_reference}, has_reference},
};
#define SET_COUNT (sizeof sets / sizeof sets[0])

/* Two threads that choose at once choose the same. */
static _Atomic(const hki_kernel_set *) current;

/* NULL if there is none of this name ("auto": the best), or the CPU lacks it. */
static const hki_kernel_set *find(const char *name)
{
    bool any = strcmp(name, "auto") == 0 || name[0] == '\0';
    for (size_t i = 0; i < SET_COUNT; i++)
        if ((any || strcmp(name, sets[i].name) == 0) && *sets[i].set != NULL && sets[i].supported())
            return *sets[i].set;
    return NULL;
}

hk_status hki_kernels_current(const hki_kernel_set **set)
{
    const hki_kernel_set *found = atomic_load_explicit(&current, memory_order_relaxed);
    if (found == NULL) {
        const char *name = hki_setting_text(HKI_SET_KERNELS);
        found = find(name);
        if (found == NULL)
            return hki_error(
                HK_ERR_SETTING, "HOCKET_KERNELS=%s: unknown, or not for this CPU; allowed are auto, reference%s%s%s",
                name, find("avx2") ? ", avx2" : "", find("avx512") ? ", avx512" : "", find("neon") ? ", neon" : "");
        atomic_store_explicit(&current, found, memory_order_relaxed);
    }
    *set = found;
    return HK_OK;
}

const hki_kernel_entry *hki_kernels_entry(const hki_kernel_set *set, hk_type type, hk_op op)
{
    const hki_kernel_entry *entry = &set->entries[type][op];
    return entry->two != NULL ? entry : &hki_kernels_reference.entries[type][op];
}

const char *hki_kernels_name(void)
{
    const hki_kernel_set *set = NULL;
    return hki_kernels_current(&set) == HK_OK ? set->name : "none";
}

bool hki_kernels_choose(const char *name)
{
    const hki_kernel_set *set = find(name);
    if (set == NULL)
        return false;
    atomic_store_explicit(&current, set, memory_order_relaxed);
    return true;
}
