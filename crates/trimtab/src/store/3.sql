-- What is drawn of a run beyond series. Most runs have none.

CREATE TABLE pictures (
    run INTEGER PRIMARY KEY REFERENCES runs ON DELETE CASCADE,
    json TEXT NOT NULL               -- as in trimtab.run, version 3
) STRICT;
