-- compatible: 11

-- Runs that have not ended, for lists of them. Written so, the condition is not that of queries for runs_left, where those that wait do not count.
CREATE INDEX runs_open ON runs (created, id) WHERE ended < 1;
