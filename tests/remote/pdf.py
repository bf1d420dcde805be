"""Writes a small PDF file: python3 tests/remote/pdf.py FILE PAGES [locked].  Each page has the words "This is page N"; locked: it needs a password."""
import sys

path, pages = sys.argv[1], int(sys.argv[2])
objects = ["<< /Type /Catalog /Pages 2 0 R >>",
           "<< /Type /Pages /Count %d /Kids [%s] >>" % (pages, " ".join("%d 0 R" % (4 + 2 * i) for i in range(pages))),
           "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
for i in range(pages):
    text = "BT /F1 40 Tf 60 700 Td (This is page %d) Tj ET" % (i + 1)
    objects.append("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R /Resources << /Font << /F1 3 0 R >> >> >>" % (5 + 2 * i))
    objects.append("<< /Length %d >>\nstream\n%s\nendstream" % (len(text), text))
out, at = b"%PDF-1.4\n", []
for i, o in enumerate(objects):
    at.append(len(out))
    out += b"%d 0 obj\n%s\nendobj\n" % (i + 1, o.encode())
locked = " /Encrypt << /Filter /Standard /V 1 /R 2 /P -1 /O <%s> /U <%s> >> /ID [<00> <00>]" % ("41" * 32, "42" * 32) if len(sys.argv) > 3 else ""
start = len(out)
out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + b"".join(b"%010d 00000 n \n" % x for x in at)
out += b"trailer\n<< /Size %d /Root 1 0 R%s >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, locked.encode(), start)
open(path, "wb").write(out)
