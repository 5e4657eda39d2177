/* JSON through jansson, loaded when it is needed. */
#include "base/json.h"

#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef HKI_HAVE_JANSSON

#include <dlfcn.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>

#define LIBRARY "libjansson.so.4" /* what all of jansson 2 is called */

/* Its own inline helpers would link us to it, so they are not used: what is made here has one owner, and goes by
 * json_delete. */
#define JANSSON_CALLS(X)                                                                                               \
    X(json_loadb)                                                                                                      \
    X(json_delete)                                                                                                     \
    X(json_object)                                                                                                     \
    X(json_array)                                                                                                      \
    X(json_string)                                                                                                     \
    X(json_integer)                                                                                                    \
    X(json_real)                                                                                                       \
    X(json_null)                                                                                                       \
    X(json_object_get)                                                                                                 \
    X(json_object_iter)                                                                                                \
    X(json_object_iter_next)                                                                                           \
    X(json_object_iter_key)                                                                                            \
    X(json_object_set_new)                                                                                             \
    X(json_array_size)                                                                                                 \
    X(json_array_get)                                                                                                  \
    X(json_array_append_new)                                                                                           \
    X(json_integer_value)                                                                                              \
    X(json_number_value)                                                                                               \
    X(json_string_value)                                                                                               \
    X(json_dumps)

static struct {
#define MEMBER(name) __typeof__(name) *name;
    JANSSON_CALLS(MEMBER)
#undef MEMBER
} jansson;

static char why_not[160]; /* empty: it is loaded */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(why_not, sizeof why_not, "jansson is not installed (%.100s)", dlerror());
        return;
    }
    /* dlsym gives an object's address for a function (POSIX allows the conversion, ISO C does not). */
#define FIND(name)                                                                                                     \
    *(void **)&jansson.name = dlsym(handle, #name);                                                                    \
    if (!jansson.name)                                                                                                 \
        snprintf(why_not, sizeof why_not, LIBRARY " has no %s: too old?", #name);
    JANSSON_CALLS(FIND)
#undef FIND
}

static hk_status need_jansson(const char *what)
{
    pthread_once(&once, load);
    return *why_not ? hki_error(HK_ERR_UNSUPPORTED, "%s: JSON cannot be handled: %s", what, why_not) : HK_OK;
}

hk_status hki_json_parse(const char *text, size_t bytes, const char *name, hki_json **document)
{
    json_error_t error;
    HK_TRY(need_jansson(name));
    json_t *value = jansson.json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!value)
        return hki_error(HK_ERR_ARGUMENT, "%s, line %d: %s", name, error.line, error.text);
    *document = value;
    return HK_OK;
}

void hki_json_free(hki_json *document)
{
    if (document)
        jansson.json_delete(document);
}

const hki_json *hki_json_member(const hki_json *value, const char *name)
{
    return value && json_is_object(value) ? jansson.json_object_get(value, name) : NULL;
}

const hki_json *hki_json_item(const hki_json *value, size_t index)
{
    return value && json_is_array(value) ? jansson.json_array_get(value, index) : NULL;
}

bool hki_json_is_array(const hki_json *value)
{
    return value && json_is_array(value);
}

size_t hki_json_count(const hki_json *value)
{
    return value && json_is_array(value) ? jansson.json_array_size(value) : 0;
}

static bool is_listed(const char *name, const char *const *list)
{
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

const char *hki_json_unknown(const hki_json *object, const char *const *known)
{
    json_t *members = (json_t *)(uintptr_t)object; /* walking over them changes nothing */
    void *at = members && json_is_object(members) ? jansson.json_object_iter(members) : NULL;
    while (at && is_listed(jansson.json_object_iter_key(at), known))
        at = jansson.json_object_iter_next(members, at);
    return at ? jansson.json_object_iter_key(at) : NULL;
}

bool hki_json_integer(const hki_json *value, int64_t *result)
{
    if (!value || !json_is_integer(value))
        return false;
    *result = jansson.json_integer_value(value);
    return true;
}

bool hki_json_number(const hki_json *value, double *result)
{
    if (!value || !json_is_number(value))
        return false;
    *result = jansson.json_number_value(value);
    return true;
}

const char *hki_json_text(const hki_json *value)
{
    return value && json_is_string(value) ? jansson.json_string_value(value) : NULL;
}

/* ---- making ---- */

hk_status hki_json_new(hki_json **object)
{
    HK_TRY(need_jansson("a document"));
    json_t *made = jansson.json_object();
    if (!made)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a document");
    *object = made;
    return HK_OK;
}

/* Gives `value` to a container and returns it; NULL, and the value is gone, when there is no memory or container. */
static json_t *put(json_t *container, const char *name, json_t *value)
{
    int failed = -1;
    if (container && value)
        failed = name ? jansson.json_object_set_new(container, name, value)
                      : jansson.json_array_append_new(container, value);
    else if (value)
        jansson.json_delete(value);
    return failed ? NULL : value;
}

hki_json *hki_json_put_object(hki_json *object, const char *name)
{
    return put(object, name, jansson.json_object());
}

hki_json *hki_json_put_array(hki_json *object, const char *name)
{
    return put(object, name, jansson.json_array());
}

hki_json *hki_json_add_object(hki_json *array)
{
    return put(array, NULL, jansson.json_object());
}

void hki_json_put_integer(hki_json *object, const char *name, int64_t value)
{
    put(object, name, jansson.json_integer(value));
}

void hki_json_put_number(hki_json *object, const char *name, double value)
{
    put(object, name, isfinite(value) ? jansson.json_real(value) : jansson.json_null());
}

void hki_json_put_text(hki_json *object, const char *name, const char *value)
{
    put(object, name, jansson.json_string(value));
}

hk_status hki_json_print(const hki_json *document, char **text)
{
    char *made = jansson.json_dumps(document, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(6));
    if (!made)
        return hki_error(HK_ERR_NO_MEMORY, "no memory to print a document");
    *text = made;
    return HK_OK;
}

#else

static hk_status unsupported(const char *what)
{
    return hki_error(HK_ERR_UNSUPPORTED, "%s: JSON cannot be handled: this build has no jansson", what);
}

hk_status hki_json_parse(const char *text, size_t bytes, const char *name, hki_json **document)
{
    (void)text, (void)bytes, (void)document;
    return unsupported(name);
}

hk_status hki_json_new(hki_json **object)
{
    (void)object;
    return unsupported("a document");
}

hk_status hki_json_print(const hki_json *document, char **text)
{
    (void)document, (void)text;
    return unsupported("a document");
}

/* There is never a value. */
void hki_json_free(hki_json *document)
{
    (void)document;
}

const hki_json *hki_json_member(const hki_json *value, const char *name)
{
    (void)value, (void)name;
    return NULL;
}

const hki_json *hki_json_item(const hki_json *value, size_t index)
{
    (void)value, (void)index;
    return NULL;
}

const char *hki_json_unknown(const hki_json *object, const char *const *known)
{
    (void)object;
    (void)known;
    return NULL;
}

bool hki_json_is_array(const hki_json *value)
{
    (void)value;
    return false;
}

size_t hki_json_count(const hki_json *value)
{
    (void)value;
    return 0;
}

bool hki_json_integer(const hki_json *value, int64_t *result)
{
    (void)value, (void)result;
    return false;
}

bool hki_json_number(const hki_json *value, double *result)
{
    (void)value, (void)result;
    return false;
}

const char *hki_json_text(const hki_json *value)
{
    (void)value;
    return NULL;
}

hki_json *hki_json_put_object(hki_json *object, const char *name)
{
    (void)object, (void)name;
    return NULL;
}

hki_json *hki_json_put_array(hki_json *object, const char *name)
{
    (void)object, (void)name;
    return NULL;
}

hki_json *hki_json_add_object(hki_json *array)
{
    (void)array;
    return NULL;
}

void hki_json_put_integer(hki_json *object, const char *name, int64_t value)
{
    (void)object, (void)name, (void)value;
}

void hki_json_put_number(hki_json *object, const char *name, double value)
{
    (void)object, (void)name, (void)value;
}

void hki_json_put_text(hki_json *object, const char *name, const char *value)
{
    (void)object, (void)name, (void)value;
}

#endif

/* ---- files ---- */

enum { FILE_MOST = 16 << 20 };

/* The whole of a file, to be freed; NULL and errno when it cannot be read. */
static char *read_all(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "re");
    char *text = file ? malloc(FILE_MOST + 1) : NULL;
    *bytes = text ? fread(text, 1, FILE_MOST + 1, file) : 0;
    bool failed = !text || ferror(file);
    int error = errno;
    if (text && *bytes > FILE_MOST) {
        failed = true;
        error = EFBIG;
    }
    if (file)
        fclose(file);
    if (!failed)
        return text;
    free(text);
    errno = error;
    return NULL;
}

hk_status hki_json_read(const char *path, hki_json **document)
{
    size_t bytes;
    char *text = read_all(path, &bytes);
    if (!text)
        return hki_error(HK_ERR_SYSTEM, "%s cannot be read: %s", path, strerror(errno));
    hk_status status = hki_json_parse(text, bytes, path, document);
    free(text);
    return status;
}

/* Writes text and a line's end to a new file; false and errno otherwise. */
static bool write_all(const char *path, const char *text)
{
    FILE *file = text ? fopen(path, "we") : NULL;
    if (!file)
        return false;
    bool written = fputs(text, file) >= 0 && fputc('\n', file) != EOF;
    return fclose(file) == 0 && written;
}

/* Writes beside the file first, so that it is never there in part; text NULL: only tries. False and errno otherwise. */
static bool replace_file(const char *path, const char *text)
{
    char *beside;
    if (asprintf(&beside, "%s.%ld", path, (long)getpid()) < 0)
        return false;
    bool done = write_all(beside, text ? text : "") && (!text || rename(beside, path) == 0);
    int error = errno;
    if (!done || !text)
        unlink(beside);
    free(beside);
    errno = error;
    return done;
}

/* A pipe, or a device like /dev/stdout, is to be written to, not to be replaced by a file. */
static bool is_special(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

/* A device tells only when it is written to; whoever reads from a pipe would take what is written for all. */
static bool may_write_to_special(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISCHR(status.st_mode) ? write_all(path, "") : access(path, W_OK) == 0;
}

hk_status hki_json_may_write(const char *path)
{
    bool may = is_special(path) ? may_write_to_special(path) : replace_file(path, NULL);
    return may ? HK_OK : hki_error(HK_ERR_SYSTEM, "%s cannot be written: %s", path, strerror(errno));
}

hk_status hki_json_write(const hki_json *document, const char *path)
{
    char *text = NULL;
    HK_TRY(hki_json_print(document, &text));
    bool done = is_special(path) ? write_all(path, text) : replace_file(path, text);
    hk_status status = done ? HK_OK : hki_error(HK_ERR_SYSTEM, "%s cannot be written: %s", path, strerror(errno));
    free(text);
    return status;
}
