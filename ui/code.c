#include "ui/code.h"

#include "ui/tui/markdown.h"

bool code_blocks(const struct buf *answer, struct buf *out)
{
    struct markdown *m = markdown_open();
    markdown_width(m, 80, 80);
    markdown_push(m, buf_str(answer), answer->len);
    markdown_end(m);
    int n = markdown_n_blocks(m);
    for (int i = 0; i < n; i++) {
        struct buf text = {0}, language = {0};
        markdown_block(m, i, &text, &language);
        buf_adds(out, i ? "\n" : "");
        buf_add(out, buf_str(&text), text.len);
        if (text.len && text.data[text.len - 1] != '\n')
            buf_addc(out, '\n');
        buf_free(&text);
        buf_free(&language);
    }
    markdown_close(m);
    return n > 0;
}
