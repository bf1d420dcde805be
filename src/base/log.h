/* See base/err.h. */
#ifndef Q35_BASE_LOG_H
#define Q35_BASE_LOG_H

#include "base/err.h"

#define log_bug err_bug
#define log_no_memory err_no_memory
#define log_before_bug err_before_bug
#define log_warn err_warn
#define log_set_sink err_set_sink

#endif
