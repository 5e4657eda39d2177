/* The job key that a user gives in a file. */
#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "boot/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECRET_LEAST = 16 };

bool hki_boot_keyless(void)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    bool keyless = strcmp(hki_setting_text(HKI_SET_KEY), "none") == 0;
    if (keyless && !atomic_flag_test_and_set(&said))
        hki_log(HK_LOG_WARN, "HOCKET_KEY=none: whoever reaches this machine's network can join the job");
    return keyless;
}

static hk_status check_file(int file, const char *path)
{
    struct stat about;
    if (fstat(file, &about) != 0)
        return hki_error_errno(HK_ERR_SETTING, errno, "HOCKET_KEY_FILE: cannot look at %s", path);
    if (!S_ISREG(about.st_mode))
        return hki_error(HK_ERR_REFUSED, "HOCKET_KEY_FILE: %s is not a regular file", path);
    if (about.st_uid != geteuid() && about.st_uid != 0)
        return hki_error(HK_ERR_REFUSED, "HOCKET_KEY_FILE: %s belongs to user %ld, not to this one", path,
                         (long)about.st_uid);
    if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return hki_error(HK_ERR_REFUSED, "HOCKET_KEY_FILE: %s can be used by others than its owner (chmod 600 it)",
                         path);
    return HK_OK;
}

/* Reads up to HKI_SECRET_MOST bytes and one more, without the newline that editors put at the end. */
static hk_status read_file(int file, const char *path, uint8_t secret[HKI_SECRET_MOST], size_t *bytes)
{
    uint8_t text[HKI_SECRET_MOST + 2];
    size_t have = 0;
    for (ssize_t got = 1; got != 0 && have < sizeof text;) {
        got = read(file, text + have, sizeof text - have);
        if (got < 0 && errno != EINTR)
            return hki_error_errno(HK_ERR_SETTING, errno, "HOCKET_KEY_FILE: cannot read %s", path);
        have += got > 0 ? (size_t)got : 0;
    }
    if (have > 0 && text[have - 1] == '\n')
        have--;
    if (have < SECRET_LEAST || have > HKI_SECRET_MOST)
        return hki_error(HK_ERR_SETTING,
                         "HOCKET_KEY_FILE: %s holds %s than %d bytes; a job key has %d to %d (head -c 32 /dev/urandom)",
                         path, have < SECRET_LEAST ? "fewer" : "more",
                         have < SECRET_LEAST ? (int)SECRET_LEAST : (int)HKI_SECRET_MOST, (int)SECRET_LEAST,
                         (int)HKI_SECRET_MOST);
    memcpy(secret, text, have);
    *bytes = have;
    explicit_bzero(text, sizeof text);
    return HK_OK;
}

hk_status hki_boot_fill_key(hk_options *options, uint8_t secret[HKI_SECRET_MOST])
{
    const char *path = hki_setting_text(HKI_SET_KEY_FILE);
    const char *word = hki_setting_text(HKI_SET_KEY);
    if (*word != '\0' && strcmp(word, "none") != 0)
        return hki_error(HK_ERR_SETTING, "HOCKET_KEY can only be \"none\": the environment is no place for a key; name "
                                         "a file of mode 0600 by HOCKET_KEY_FILE");
    if (options->key || *path == '\0')
        return HK_OK;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (file < 0)
        return hki_error_errno(HK_ERR_SETTING, errno, "HOCKET_KEY_FILE: cannot open %s", path);
    hk_status status = check_file(file, path);
    if (status == HK_OK)
        status = read_file(file, path, secret, &options->key_bytes);
    close(file);
    if (status == HK_OK)
        options->key = secret;
    return status;
}
