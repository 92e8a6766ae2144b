-- One row for each run of a workflow or an agent. Dates are microseconds since 1970; a run that does not expire has the largest number.
CREATE TABLE runs (
	id TEXT PRIMARY KEY,
	workflow TEXT NOT NULL,
	agent TEXT NOT NULL,
	owner TEXT NOT NULL,
	session TEXT NOT NULL,   -- full name; '': none
	replica TEXT NOT NULL,   -- that works on the run; '': none
	attempt BIGINT NOT NULL, -- rises when another replica takes the run over
	crashes BIGINT NOT NULL, -- of replicas that worked on it
	state TEXT NOT NULL,     -- queued, running, waiting, completed, failed, canceled, interrupted
	created BIGINT NOT NULL,
	ended BIGINT NOT NULL,   -- 0: not yet
	expires BIGINT NOT NULL,
	bytes BIGINT NOT NULL,   -- of its events; 0 before the end
	removed BIGINT NOT NULL, -- 0: nothing; 1: the events, because of a bound; 2: events, request and result, because it has expired
	request TEXT NOT NULL,   -- JSON
	result TEXT NOT NULL     -- JSON; '': none
);
CREATE INDEX runs_by_date ON runs (created, id) WHERE removed < 2;
CREATE INDEX runs_by_owner ON runs (owner, created, id) WHERE removed < 2;
CREATE INDEX runs_by_session ON runs (session, created, id) WHERE session <> '';
CREATE INDEX runs_live ON runs (created, id) WHERE ended = 0;
CREATE INDEX runs_with_events ON runs (ended, id, bytes) WHERE bytes > 0;
CREATE INDEX runs_by_expiry ON runs (expires) WHERE ended > 0 AND removed < 2;
CREATE INDEX runs_expired ON runs (expires) WHERE removed = 2;

-- The events of runs. Row 0 of an attempt has no events: it names the last batch of the attempt before that its replica has read. Later ones of
-- that attempt are ignored.
CREATE TABLE run_batches (
	run TEXT NOT NULL,
	attempt BIGINT NOT NULL,
	seq BIGINT NOT NULL,   -- 1, 2, 3… in each attempt
	first BIGINT NOT NULL, -- number of the first event
	events BLOB NOT NULL,
	after_seq BIGINT,      -- of row 0
	PRIMARY KEY (run, attempt, seq)
);

-- Runs whose batches have to be removed.
CREATE TABLE run_removals (
	run TEXT PRIMARY KEY,
	due BIGINT NOT NULL
);
CREATE INDEX run_removals_by_date ON run_removals (due);

CREATE TABLE idempotency_keys (
	owner TEXT NOT NULL,
	key TEXT NOT NULL,          -- SHA-256 of owner, NUL and key, in hexadecimal
	request_hash TEXT NOT NULL, -- hexadecimal
	run TEXT NOT NULL,
	expires BIGINT NOT NULL,
	PRIMARY KEY (owner, key)
);
CREATE INDEX idempotency_keys_by_run ON idempotency_keys (run);
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires);

-- Processes that share the database.
CREATE TABLE replicas (
	id TEXT PRIMARY KEY,
	address TEXT NOT NULL,
	version TEXT NOT NULL,
	seen BIGINT NOT NULL -- on PostgreSQL by its clock
);

-- What all replicas have to agree on.
CREATE TABLE settings (
	key TEXT PRIMARY KEY,
	value BLOB NOT NULL
);
