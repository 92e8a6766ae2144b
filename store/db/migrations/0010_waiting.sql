-- When a run is to go on that waits and that no replica works on: the time of its question is over then.
ALTER TABLE runs ADD COLUMN wake BIGINT NOT NULL DEFAULT 0;
DROP INDEX runs_live;
CREATE INDEX runs_left ON runs (created, id) WHERE ended = 0 AND (replica <> '' OR state <> 'waiting');
CREATE INDEX runs_waiting ON runs (wake) WHERE ended = 0 AND replica = '' AND state = 'waiting';
