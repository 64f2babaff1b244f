-- What belongs together, and what users call it. What a run was made from is in `fields`, scope `specification`.

ALTER TABLE runs ADD COLUMN label TEXT;

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
    part TEXT NOT NULL,              -- runs, ageing, tuning
    run INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,
    PRIMARY KEY (study, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX study_runs_by_run ON study_runs (run);

CREATE TABLE study_untried (
    study INTEGER NOT NULL REFERENCES studies ON DELETE CASCADE,
    position INTEGER NOT NULL,
    policy TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (study, position)
) STRICT, WITHOUT ROWID;
