#include "comm/place.h"

#include "base/settings.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint64_t mix_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t mix_link(uint64_t hash, const char *path)
{
    char target[128];
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0)
        return hash;
    target[length] = '\0';
    return mix_text(hash, target);
}

void hki_place_self(hk_peer *self)
{
    char boot[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (!fgets(boot, sizeof boot, file))
            boot[0] = '\0';
        fclose(file);
    }
    uint64_t hash = mix_text(UINT64_C(0xcbf29ce484222325), boot);
    hash = mix_link(hash, "/proc/self/ns/net");
    hash = mix_link(hash, "/proc/self/ns/pid");
    hash = mix_link(hash, "/proc/self/ns/user");
    self->host = mix_text(hash, hki_setting_text(HKI_SET_HOST));
    self->pid = getpid();
    gethostname(self->host_name, sizeof self->host_name - 1);
    if (hki_setting_given(HKI_SET_HOST))
        snprintf(self->host_name, sizeof self->host_name, "%s", hki_setting_text(HKI_SET_HOST));
}
