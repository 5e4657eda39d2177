/* Certificates for tests of TLS, made anew in a directory: NAME.pem and NAME.key, elliptic curve P-256. */
#ifndef HKI_TESTS_CERTIFICATES_H
#define HKI_TESTS_CERTIFICATES_H

#include <stdbool.h>

/* Two authorities, "ca" and "other"; by ca, "good" and "expired" (a day ago); by other, "stranger". False, with nothing
 * said, when the tests were built without OpenSSL. */
bool certificates_make(const char *directory);
/* Removes them, and the directory. */
bool certificates_remove(const char *directory);

#endif
