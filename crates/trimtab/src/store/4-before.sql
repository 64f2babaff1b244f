-- A run is only ever read whole: it becomes one body. What is searched stays a column.

ALTER TABLE runs ADD COLUMN body BLOB NOT NULL DEFAULT x'';   -- as in trimtab.run, compressed (zstd)
