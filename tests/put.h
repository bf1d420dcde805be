/* Writes one record each to a session. */
#pragma once

#include "session/file.h"

#define PUT(name, parameters, record) \
    static inline bool put_##name parameters \
    { \
        struct buf line = {0}; \
        record; \
        return session_put(s, &line, e); \
    }
PUT(entry, (struct session *s, const struct entry *m, struct err *e), record_entry(&line, m))
PUT(instead, (struct session *s, const struct entry *m, struct err *e), record_instead(&line, m))
PUT(system, (struct session *s, const char *text, struct err *e), record_system(&line, text))
PUT(title, (struct session *s, const char *text, struct err *e), record_title(&line, text))
PUT(keep, (struct session *s, int n, struct err *e), record_keep(&line, n))
PUT(forget, (struct session *s, int n, struct err *e), record_forget(&line, n))
PUT(go, (struct session *s, int number, struct err *e), record_go(&line, number))
PUT(transcript, (struct session *s, const struct transcript *t, struct err *e), record_transcript(&line, t))
#undef PUT
