/* Memory of the host, in small pieces: if an allocation fails, the program restores the terminal, prints one sentence on stderr and ends with
 * status 1.  Large pieces are planned by engine/memplan. */
#pragma once

#include <stddef.h>

void *memory_got(void *p);              /* returns p, which is NULL if an allocation failed */
void *memory_alloc(size_t n);           /* malloc(), calloc(), realloc() and strdup() with that check; 0 bytes count as 1 */
void *memory_zeroed(size_t n, size_t size);
void *memory_resized(void *p, size_t n);
char *memory_strdup(const char *s);      /* NULL stays NULL */
/* Makes room for one more element of `size` bytes after the n elements of `array` (NULL at first): when full, doubles *cap.
 * Returns the array, which may have moved. */
void *memory_grow(void *array, int n, int *cap, size_t size);

/* An arena: many small allocations with one lifetime.  Plain value, valid as {0}.  Memory is zeroed and aligned to 64 bytes for pieces
 * of 64 bytes or more, to 16 otherwise. */
struct arena_block;
struct arena {
    struct arena_block *head;
    size_t total;                       /* bytes handed out */
};

void *arena_alloc(struct arena *a, size_t n);
void *arena_array(struct arena *a, size_t count, size_t size);   /* aborts if the product overflows */
/* Makes room for one more element of `size` bytes after the n elements of `array` (NULL at first): when full, doubles *cap.
 * Returns the array, which may have moved; the old one stays until the arena is freed. */
void *arena_grow(struct arena *a, const void *array, int n, int *cap, size_t size);
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void  arena_free(struct arena *a);      /* frees everything; the arena can be used again */
