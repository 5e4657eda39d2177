/*
 * JSON documents: tuning files, clusters. Read and written through jansson, which is loaded by name when the first
 * document is asked for: neither the library nor the ranks of a job depend on it. A value belongs to the document or
 * the container that it is in; only what was read or made as a whole is freed.
 */
#ifndef HKI_BASE_JSON_H
#define HKI_BASE_JSON_H

#include <hocket/hocket.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct json_t hki_json;

/* Reads a document from memory; `name` stands for it in messages. Duplicate members are refused. HK_ERR_ARGUMENT (not
 * JSON: says where), HK_ERR_UNSUPPORTED (no jansson here, or in this build), HK_ERR_NO_MEMORY. */
hk_status hki_json_parse(const char *text, size_t bytes, const char *name, hki_json **document);
/* The same from a file of at most 16 MiB. Also HK_ERR_SYSTEM (cannot be read: says why). */
hk_status hki_json_read(const char *path, hki_json **document);
void hki_json_free(hki_json *document);

/* A member of an object, NULL if there is none or `value` is no object (NULL included); an item of an array, NULL
 * behind the last; how many items an array has, 0 for what is none. */
const hki_json *hki_json_member(const hki_json *value, const char *name);
const hki_json *hki_json_item(const hki_json *value, size_t index);
size_t hki_json_count(const hki_json *value);
bool hki_json_is_array(const hki_json *value); /* false for NULL */
/* The name of a member that `known`, which ends with NULL, does not list; NULL: there is none. */
const char *hki_json_unknown(const hki_json *object, const char *const *known);
/* False (and *result untouched) when the value is NULL or of another kind. A whole number is a number as well. */
bool hki_json_integer(const hki_json *value, int64_t *result);
bool hki_json_number(const hki_json *value, double *result);
/* NULL when the value is no text. */
const char *hki_json_text(const hki_json *value);

/* Making documents. HK_ERR_UNSUPPORTED as above; afterwards jansson is there, and the setters remember only that there
 * was no memory: then hki_json_write says so. A container that is given to another becomes its part, on failure too. */
hk_status hki_json_new(hki_json **object);
hki_json *hki_json_put_object(hki_json *object, const char *name); /* NULL: no memory; may be passed on as it is */
hki_json *hki_json_put_array(hki_json *object, const char *name);
hki_json *hki_json_add_object(hki_json *array);
void hki_json_put_integer(hki_json *object, const char *name, int64_t value);
void hki_json_put_number(hki_json *object, const char *name, double value); /* not finite: null */
void hki_json_put_text(hki_json *object, const char *name, const char *value);
/* The document as text, indented, to be freed by the caller; members in the order in which they were put. */
hk_status hki_json_print(const hki_json *document, char **text);
/* Writes it whole or not at all: to a file beside, which then takes the name; to what is no regular file, straight.
 * HK_ERR_SYSTEM, HK_ERR_NO_MEMORY. */
hk_status hki_json_write(const hki_json *document, const char *path);
/* Whether hki_json_write could write there, before there is anything to write. A file that is there stays as it is;
 * a device gets an empty line. HK_ERR_SYSTEM, HK_ERR_NO_MEMORY. */
hk_status hki_json_may_write(const char *path);

#endif
