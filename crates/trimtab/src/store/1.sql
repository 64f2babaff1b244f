-- Results. Numbers of 64 bits without sign are stored as the same 64 bits with sign. Every list keeps its order in `position`.

CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    saved INTEGER NOT NULL UNIQUE,   -- counts up: the largest is `last`
    saved_unix_ms INTEGER NOT NULL,
    workload TEXT NOT NULL,
    target TEXT NOT NULL,
    target_label TEXT NOT NULL,
    policy TEXT NOT NULL,
    seed INTEGER NOT NULL,
    provenance TEXT NOT NULL,
    systems INTEGER NOT NULL,
    started_unix_ms INTEGER NOT NULL,
    tool_version TEXT NOT NULL,
    complete INTEGER NOT NULL
) STRICT;

CREATE TABLE fields (
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    scope TEXT NOT NULL,             -- setting, policy, environment
    position INTEGER NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (run, scope, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE counters (
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE phases (
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    started_ns INTEGER NOT NULL,
    took_ns INTEGER NOT NULL,
    read_bytes INTEGER NOT NULL,
    written_bytes INTEGER NOT NULL,
    PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE phase_ops (
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    phase INTEGER NOT NULL,
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (run, phase, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE discards (
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    phase INTEGER NOT NULL,
    asked_commands INTEGER NOT NULL,
    asked_bytes INTEGER NOT NULL,
    accepted_commands INTEGER,
    accepted_bytes INTEGER,
    refused_commands INTEGER NOT NULL,
    refused_errnos TEXT NOT NULL,    -- numbers, separated by spaces
    effective_bytes INTEGER,
    freed_bytes INTEGER,
    PRIMARY KEY (run, phase)
) STRICT, WITHOUT ROWID;

CREATE TABLE latencies (
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    phase INTEGER NOT NULL,
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    part TEXT NOT NULL,
    count INTEGER NOT NULL,
    histogram BLOB NOT NULL,         -- per bucket: value in ns less the value before, count; both LEB128
    PRIMARY KEY (run, phase, position)
) STRICT;

CREATE TABLE metrics (
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    unit TEXT NOT NULL,
    better TEXT NOT NULL,
    PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE samples (
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    metric INTEGER NOT NULL,
    position INTEGER NOT NULL,
    value REAL,                      -- NULL: not a number
    PRIMARY KEY (run, metric, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE series (
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    axis TEXT NOT NULL,
    unit TEXT NOT NULL,
    x BLOB NOT NULL,                 -- per point: x less the x before, LEB128
    y BLOB NOT NULL,                 -- per point: 8 bytes, little endian
    PRIMARY KEY (run, position)
) STRICT;

CREATE TABLE warnings (
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    position INTEGER NOT NULL,
    code TEXT NOT NULL,
    severity TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (run, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE warning_facts (
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    warning INTEGER NOT NULL,
    position INTEGER NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (run, warning, position)
) STRICT, WITHOUT ROWID;
