/* PDF files of a message: each page becomes a picture, and the text that they carry goes along.  "FILE:3" and "FILE:3-5" are pages of FILE.  The
 * work is done by poppler's programs (pdfinfo, pdftoppm, pdftotext) where they are installed: children without a terminal, with limits of memory,
 * time and output, none of which is left behind. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/err.h"
#include "session/transcript.h"

enum pdf_as { PDF_BOTH, PDF_PICTURES, PDF_TEXT };
enum { PDF_MAX_PAGES = 20 };            /* of a message's file */

/* Pages from..to of a file; `path` is what the user wrote.  *ends (may be NULL, and may be set) ends the programs.  pdf_free() frees it. */
struct pdf { struct buf file; const char *path; int from, to; const atomic_bool *ends; };

/* True if the path names a PDF file, or pages of one: then *p has the file, and 1 and 0 if no page is named. */
bool pdf_named(struct pdf *p, const char *path);
/* Finds how many pages there are, and sets from and to.  False with the reason: no such pages, too many, a password, no program. */
bool pdf_pages(struct pdf *p, struct err *e);
/* Makes the picture of page n, or the text of all pages, as a file of a message in `a`.  False with the reason. */
bool pdf_page(const struct pdf *p, int n, struct entry_file *f, struct arena *a, struct err *e);
bool pdf_text(const struct pdf *p, struct entry_file *f, struct arena *a, struct err *e);
void pdf_free(struct pdf *p);
