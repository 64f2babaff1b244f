DROP TABLE fields;
DROP TABLE counters;
DROP TABLE phases;
DROP TABLE phase_ops;
DROP TABLE discards;
DROP TABLE latencies;
DROP TABLE metrics;
DROP TABLE samples;
DROP TABLE series;
DROP TABLE warnings;
DROP TABLE warning_facts;
DROP TABLE pictures;

ALTER TABLE runs DROP COLUMN target;
ALTER TABLE runs DROP COLUMN seed;
ALTER TABLE runs DROP COLUMN provenance;
ALTER TABLE runs DROP COLUMN systems;
ALTER TABLE runs DROP COLUMN tool_version;
ALTER TABLE runs DROP COLUMN complete;
