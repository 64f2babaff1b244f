#!/usr/bin/env python3
"""pack.py TREE [SUBJECT TITLE]: a tree recorded by `trimtab doctor --record` as the text form of tests/fixtures/sysroots, without what is not about TRIM.

With SUBJECT (a mount point or device) and TITLE what the doctor says of it stands above, as it has to be said from now on: to be looked at by whoever adds it.
TRIMTAB names the program, LAB_KERNEL_VERSION the kernel where the tree does not."""
import json, os, subprocess, sys
tree = sys.argv[1]
lines = []
queues = {}
def shorten(path, text):
    keep = None
    if path.endswith('.service') or path.endswith('.timer'):
        keep = lambda l: l.startswith(('[', 'ExecStart', 'OnCalendar', 'WantedBy'))
    elif path.endswith('/options'):
        keep = lambda l: l.strip() in ('discard', 'nodiscard')
    elif path.endswith('/mountinfo'):
        others = ('tmpfs', '9p', 'devtmpfs', 'proc', 'sysfs', 'tracefs', 'devpts', 'cgroup2', 'mqueue', 'hugetlbfs', 'debugfs', 'autofs', 'bpf', 'configfs', 'fusectl', 'securityfs', 'pstore', 'ramfs')
        keep = lambda l: not any(f' - {t} ' in l for t in others) and ' / / rw' not in l
    elif path.endswith('mke2fs.conf') or path.endswith('crypttab'):
        return None
    return text if keep is None else '\n'.join(l for l in text.split('\n') if keep(l))
def kernel():
    try:
        return '.'.join(open(os.path.join(tree, 'proc/sys/kernel/osrelease')).read().split('.')[:2])
    except OSError:
        return os.environ.get('LAB_KERNEL_VERSION', '6.12')
def expected(subject, title):
    program = os.environ.get('TRIMTAB', 'target/debug/trimtab')
    said = subprocess.run([program, 'doctor', '--json', '--sysroot', tree, subject], capture_output=True, text=True)
    found = json.loads(said.stdout)['diagnoses'][0]
    yield f'# {title}'
    yield f'# Recorded in a virtual machine (Linux {kernel()}).'
    yield f'# expect subject: {subject}'
    yield f'# expect verdict: {found["verdict"]["kind"]}'
    for at in found['verdict'].get('at', []):
        yield f'# expect at: {at}'
    of = [f for layer in found['layers'] + [found['filesystem'] or {}] for f in layer.get('findings', [])] + found.get('mechanisms', [])
    for finding in of:
        if finding['severity'] != 'note':
            yield f'# expect finding: {finding["code"]}'
    for step in found['to_do']:
        yield f'# expect to do: {step}'
    for by in found['trimmed_by']:
        yield f'# expect trimmed by: {by}'
for directory, names, files in os.walk(tree):
    # An empty directory whose existence matters, as with bcache.
    if not names and not files:
        shown = '/' + directory[len(tree):].lstrip('/')
        lines.append((shown, f'dir {shown}'))
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
        # One line per queue.
        of, _, key = shown.partition('/queue/')
        if key and '/' not in key and '_' not in text and '\n' not in text and text.strip():
            queues.setdefault(of, []).append(f"{key}={text.strip().replace(' ', '_')}")
            continue
        lines.append((shown, f"{shown} <<\n{text}\n." if '\n' in text else f"{shown} = {text.strip()}"))
lines += [(f'{of}/queue', f'queue {of} {" ".join(sorted(values))}') for of, values in queues.items()]
if len(sys.argv) > 3:
    print('\n'.join(expected(sys.argv[2], sys.argv[3])))
print('\n'.join(line for _, line in sorted(lines)))
