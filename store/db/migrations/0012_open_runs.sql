-- compatible: 11

-- Runs that have not ended, for lists of them.
CREATE INDEX runs_open ON runs (created, id) WHERE ended = 0;
