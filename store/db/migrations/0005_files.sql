-- Uploaded files, and those that models made. Their content is in blobs: tape is the id of the file, incarnation is 0.
CREATE TABLE files (
	id TEXT PRIMARY KEY,
	owner TEXT NOT NULL,
	name TEXT NOT NULL,
	type TEXT NOT NULL,   -- media type
	size BIGINT NOT NULL, -- in bytes
	sha256 TEXT NOT NULL,
	created BIGINT NOT NULL,
	expires BIGINT NOT NULL
);
CREATE INDEX files_by_owner ON files (owner);
CREATE INDEX files_by_expiry ON files (expires);
