#!/usr/bin/env python3
"""pack.py TREE: a tree recorded by `trimtab doctor --record` as the text form of tests/fixtures/sysroots, without what is not about TRIM."""
import os, sys
tree = sys.argv[1]
lines = []
def shorten(path, text):
    keep = None
    if path.endswith('.service') or path.endswith('.timer'):
        keep = lambda l: l.startswith(('[', 'ExecStart', 'OnCalendar', 'WantedBy'))
    elif path.endswith('/options'):
        keep = lambda l: l.strip() in ('discard', 'nodiscard')
    elif path.endswith('/mountinfo'):
        keep = lambda l: not any(f' - {t} ' in l for t in ('tmpfs', '9p', 'devtmpfs', 'proc', 'sysfs')) and ' / / rw' not in l
    elif path.endswith('mke2fs.conf') or path.endswith('crypttab'):
        return None
    return text if keep is None else '\n'.join(l for l in text.split('\n') if keep(l))
for directory, names, files in os.walk(tree):
    for name in files + [n for n in names if os.path.islink(os.path.join(directory, n))]:
        path = os.path.join(directory, name)
        shown = '/' + path[len(tree):].lstrip('/')
        if os.path.islink(path):
            lines.append((shown, f"{shown} -> {os.readlink(path)}"))
            continue
        data = open(path, 'rb').read()
        try:
            text = data.decode('ascii')
            printable = all(c in '\n\t' or ' ' <= c < '\x7f' for c in text)
        except UnicodeDecodeError:
            printable = False
        if not printable:
            lines.append((shown, f"hex {shown} {data.hex()}"))
            continue
        text = shorten(shown, text)
        if text is None:
            continue
        text = text.strip('\n')
        lines.append((shown, f"{shown} <<\n{text}\n." if '\n' in text else f"{shown} = {text.strip()}"))
print('\n'.join(line for _, line in sorted(lines)))
