#include "certificates.h"

#include <stdio.h>
#include <unistd.h>

bool certificates_remove(const char *directory)
{
    static const char *const names[] = {"ca", "other", "good", "expired", "stranger"};
    char path[512];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s.pem", directory, names[i]);
        unlink(path);
        snprintf(path, sizeof path, "%s/%s.key", directory, names[i]);
        unlink(path);
    }
    return rmdir(directory) == 0;
}

#ifdef HKI_HAVE_OPENSSL

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

enum { DAY = 24 * 3600 };

typedef struct maker {
    const char *directory;
    long serial;
} maker;

typedef struct identity {
    X509 *certificate;
    EVP_PKEY *key;
} identity;

static bool write_out(const maker *self, const char *name, const identity *one)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.pem", self->directory, name);
    FILE *file = fopen(path, "w");
    bool written = file != NULL && PEM_write_X509(file, one->certificate) == 1;
    if (file != NULL)
        fclose(file);
    snprintf(path, sizeof path, "%s/%s.key", self->directory, name);
    file = fopen(path, "w");
    written = written && file != NULL && chmod(path, 0600) == 0 &&
              PEM_write_PrivateKey(file, one->key, NULL, NULL, 0, NULL, NULL) == 1;
    if (file != NULL)
        fclose(file);
    return written;
}

/* Issued by `by`, NULL: by itself. */
static identity issue(maker *self, const char *name, const identity *by, int days)
{
    identity one = {.certificate = X509_new(), .key = EVP_EC_gen("P-256")};
    const identity *issuer = by != NULL ? by : &one;
    X509_NAME *subject = X509_get_subject_name(one.certificate);
    X509_set_version(one.certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(one.certificate), ++self->serial);
    X509_gmtime_adj(X509_getm_notBefore(one.certificate), -2 * DAY);
    X509_gmtime_adj(X509_getm_notAfter(one.certificate), (long)days * DAY);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
    X509_set_issuer_name(one.certificate, X509_get_subject_name(issuer->certificate));
    X509_set_pubkey(one.certificate, one.key);
    X509_EXTENSION *authority =
        X509V3_EXT_conf_nid(NULL, NULL, NID_basic_constraints, by == NULL ? "critical,CA:TRUE" : "CA:FALSE");
    X509_add_ext(one.certificate, authority, -1);
    X509_EXTENSION_free(authority);
    X509_sign(one.certificate, issuer->key, EVP_sha256());
    return one;
}

static void forget(identity *one)
{
    X509_free(one->certificate);
    EVP_PKEY_free(one->key);
}

bool certificates_make(const char *directory)
{
    maker self = {.directory = directory};
    identity ca = issue(&self, "ca", NULL, 1), other = issue(&self, "other", NULL, 1);
    identity good = issue(&self, "good", &ca, 1), expired = issue(&self, "expired", &ca, -1);
    identity stranger = issue(&self, "stranger", &other, 1);
    bool made = write_out(&self, "ca", &ca) && write_out(&self, "other", &other) && write_out(&self, "good", &good) &&
                write_out(&self, "expired", &expired) && write_out(&self, "stranger", &stranger);
    forget(&ca);
    forget(&other);
    forget(&good);
    forget(&expired);
    forget(&stranger);
    return made;
}

#else

bool certificates_make(const char *directory)
{
    (void)directory;
    return false;
}

#endif
