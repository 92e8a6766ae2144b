-- Small records by key, for what has no table of its own yet. A deleted record stays for some minutes.
CREATE TABLE tables (
	name TEXT PRIMARY KEY,
	rev BIGINT NOT NULL,     -- of the last change
	records BIGINT NOT NULL, -- that are there
	bytes BIGINT NOT NULL    -- of their keys, metas and bodies
);
CREATE TABLE records (
	name TEXT NOT NULL,      -- of the table
	key TEXT NOT NULL,
	made BIGINT NOT NULL,    -- the revision that created the record
	rev BIGINT NOT NULL,     -- of its last change
	changed BIGINT NOT NULL, -- rev, or the revision of its deletion
	put BLOB NOT NULL,       -- id of the last change
	maker BLOB NOT NULL,     -- id of the change that created the record
	meta BLOB NOT NULL,
	body BLOB NOT NULL,
	at BIGINT NOT NULL,      -- of the last change; microseconds since 1970
	expires BIGINT,
	size BIGINT NOT NULL,    -- in bytes
	deleted BIGINT NOT NULL, -- 0 or 1
	PRIMARY KEY (name, key)
);
CREATE INDEX records_by_change ON records (name, changed);
CREATE INDEX records_by_expiry ON records (expires) WHERE expires IS NOT NULL;
