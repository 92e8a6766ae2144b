-- One row for each tape: a session's, or a fork's. Dates are microseconds since 1970.
CREATE TABLE sessions (
	tape TEXT PRIMARY KEY,
	incarnation BIGINT NOT NULL, -- random; differs when a tape is erased and created again
	parent TEXT NOT NULL,        -- of a fork: the tape of its session; of a session: ''
	session TEXT NOT NULL,
	workspace TEXT NOT NULL,
	owner TEXT NOT NULL,         -- the session id before '#'; '' without '#'
	agent TEXT NOT NULL,
	title TEXT NOT NULL,
	entries BIGINT NOT NULL,
	bytes BIGINT NOT NULL,
	anchors BIGINT NOT NULL,
	last_id BIGINT NOT NULL,
	last_anchor BIGINT NOT NULL, -- 0: none
	last_anchor_name TEXT NOT NULL,
	last_anchor_date BIGINT NOT NULL,
	created BIGINT NOT NULL,
	updated BIGINT NOT NULL
);
CREATE INDEX sessions_by_date ON sessions (updated DESC, tape) WHERE parent = '';
CREATE INDEX sessions_by_owner ON sessions (owner, updated DESC, tape) WHERE parent = '';
CREATE INDEX sessions_by_parent ON sessions (parent) WHERE parent <> '';

-- The entries of tapes. Rows whose incarnation is not that of the session are invisible: an import that has not ended, or an erased tape.
CREATE TABLE entries (
	tape TEXT NOT NULL,
	incarnation BIGINT NOT NULL,
	id BIGINT NOT NULL,
	kind TEXT NOT NULL,
	anchor TEXT, -- the name, if the entry is an anchor
	turn TEXT NOT NULL,
	date BIGINT NOT NULL,
	line TEXT NOT NULL, -- the entry as JSON
	PRIMARY KEY (tape, incarnation, id)
);
CREATE INDEX entries_anchors ON entries (tape, incarnation, id) WHERE anchor IS NOT NULL;

-- Large values that entries name, in parts. A blob exists when part 0 does, which is written last.
CREATE TABLE blobs (
	tape TEXT NOT NULL,
	incarnation BIGINT NOT NULL,
	hash TEXT NOT NULL,   -- SHA-256 of the whole blob, in hexadecimal
	part BIGINT NOT NULL, -- from 0
	size BIGINT NOT NULL, -- of the whole blob, in bytes
	data BLOB NOT NULL,
	PRIMARY KEY (tape, incarnation, hash, part)
);

-- Tapes whose entries and blobs have to be removed once it is due: at once if erased, later if being imported.
CREATE TABLE removals (
	tape TEXT NOT NULL,
	incarnation BIGINT NOT NULL,
	due BIGINT NOT NULL,
	PRIMARY KEY (tape, incarnation)
);

-- The last commit of each process on PostgreSQL: shows whether a commit took place whose answer was lost.
CREATE TABLE commits (
	id BIGINT PRIMARY KEY,
	date BIGINT NOT NULL
);
