/* Why a request got no answer, as a sentence for a person: who was asked, what was found, what to do. */
#ifndef Q35_FETCH_FAILURE_H
#define Q35_FETCH_FAILURE_H

#include "base/err.h"
#include "fetch/http.h"

struct failure {
    const struct http_request *q;
    int  code;                          /* curl's */
    int  os_error;                      /* of the last attempt to connect; 0: none */
    int  proxy_status;                  /* the status with which a proxy answered; 0: none was asked */
    int  port;                          /* of the last attempt to connect; 0: not known */
    bool connected;                     /* the connection was ready for the request */
    bool replies;                       /* the reply had begun */
    const char *why;                    /* curl's words; may be empty */
};

/* Which of HTTP_BROKEN and HTTP_HOPELESS it is, with the sentence. */
enum http_result failure_say(const struct failure *f, struct err *e);

#endif
