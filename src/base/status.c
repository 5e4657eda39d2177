/* Texts that come from the API's own lists: status codes and the version. */
#include <hocket/hocket.h>

#define TEXT(value) #value
#define VERSION_TEXT(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

const char *hk_status_string(hk_status status)
{
    switch (status) {
#define HK_X(name, value, text)                                                                                        \
    case name:                                                                                                         \
        return text;
        HK_STATUS_LIST(HK_X)
#undef HK_X
    }
    return "unknown status";
}

const char *hk_status_name(hk_status status)
{
    switch (status) {
#define HK_X(name, value, text)                                                                                        \
    case name:                                                                                                         \
        return #name;
        HK_STATUS_LIST(HK_X)
#undef HK_X
    }
    return "unknown status";
}

const char *hk_version(int *major, int *minor, int *patch)
{
    if (major != NULL)
        *major = HK_VERSION_MAJOR;
    if (minor != NULL)
        *minor = HK_VERSION_MINOR;
    if (patch != NULL)
        *patch = HK_VERSION_PATCH;
    return VERSION_TEXT(HK_VERSION_MAJOR, HK_VERSION_MINOR, HK_VERSION_PATCH);
}
