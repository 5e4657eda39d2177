#include "dtype/kernels.h"

const hki_kernel_set *const hki_kernels_avx512 = NULL;
