-- Results. Numbers of 64 bits without sign are stored as the same 64 bits with sign. Every list keeps its order in `position`.

-- A run is only ever read whole: it is one body. What is searched is a column.
CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    saved INTEGER NOT NULL UNIQUE,   -- counts up: the largest is `last`
    saved_unix_ms INTEGER NOT NULL,
    workload TEXT NOT NULL,
    target_label TEXT NOT NULL,
    policy TEXT NOT NULL,
    started_unix_ms INTEGER NOT NULL,
    label TEXT,
    head TEXT NOT NULL,              -- what a list shows, as in trimtab.run
    body BLOB NOT NULL               -- as in trimtab.run, compressed (zlib)
) STRICT;

CREATE TABLE studies (
    study INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    saved INTEGER NOT NULL UNIQUE,   -- counts up
    saved_unix_ms INTEGER NOT NULL,
    target TEXT NOT NULL,
    complete INTEGER NOT NULL
) STRICT;

CREATE TABLE study_runs (
    study INTEGER NOT NULL REFERENCES studies ON DELETE CASCADE,
    position INTEGER NOT NULL,
    part TEXT NOT NULL,              -- runs, ageing; of a further target 1/runs
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    PRIMARY KEY (study, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX study_runs_by_run ON study_runs (run);

-- What a study knows besides its runs: of each of its targets what could not be tried and which assumptions decide.
CREATE TABLE study_notes (
    study INTEGER NOT NULL REFERENCES studies ON DELETE CASCADE,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,              -- the target's number
    value TEXT NOT NULL,             -- JSON
    PRIMARY KEY (study, position)
) STRICT, WITHOUT ROWID;
