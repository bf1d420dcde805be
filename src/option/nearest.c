#include "option/nearest.h"

#include <stdbool.h>
#include <string.h>

enum { LONGEST = 48 };

static int min3(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

/* Edit distance, one row of the table at a time; a swap of neighbours counts as two edits. */
static int distance(const char *a, const char *b)
{
    int n = (int)strlen(a), m = (int)strlen(b);
    int row[LONGEST + 1];
    if (n > LONGEST || m > LONGEST)
        return LONGEST;
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int above = row[j];
            row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[m];
}

/* Whether a word of four letters or more is the beginning of a name, but for its last letter. */
static bool begins(const char *word, const char *name)
{
    size_t n = strlen(word);
    return n >= 4 && !strncmp(word, name, n - 1);
}

const char *nearest(const char *word, const char *const *names, int n)
{
    const char *best = NULL;
    int least = (int)strlen(word) / 3 + 2;      /* one slip in a short word, more in a long one */
    for (int i = 0; i < n; i++) {
        int d = names[i] ? distance(word, names[i]) : least;
        if (d < least) {
            least = d;
            best = names[i];
        }
    }
    for (int i = 0; i < n && !best; i++)
        best = names[i] && begins(word, names[i]) ? names[i] : NULL;
    return best;
}

/* Whether two neighbours of the one are swapped in the other. */
static bool is_swapped(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a && a[0] == b[1] && a[1] == b[0] && !strcmp(a + 2, b + 2);
}

bool nearest_is(const char *word, const char *name)
{
    return distance(word, name) <= (strlen(name) < 6 ? 1 : 2) || is_swapped(word, name);
}
