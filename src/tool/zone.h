/* The time of day in any zone of the system's database.  glibc knows one zone for the whole process, and changing that is not safe while
 * other threads run; this reads the file of a zone (RFC 8536) and changes nothing. */
#pragma once

#include <stdbool.h>
#include <time.h>

/* Converts `t` for a name such as "Europe/Paris".  Sets tm_gmtoff, but neither tm_zone nor tm_isdst.  False: the database has no such zone. */
bool zone_time(const char *name, time_t t, struct tm *tm);
