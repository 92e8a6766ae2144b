-- Small values by key. updated and expires are dates; one that does not expire has the largest number.
CREATE TABLE windows ( -- unanswered messages of groups
	key TEXT PRIMARY KEY, value BLOB NOT NULL, updated BIGINT NOT NULL, expires BIGINT NOT NULL
);
CREATE TABLE pairs ( -- people who are paired, or ask for it
	key TEXT PRIMARY KEY, value BLOB NOT NULL, updated BIGINT NOT NULL, expires BIGINT NOT NULL
);
CREATE TABLE conversations ( -- where the messages of a session came from
	key TEXT PRIMARY KEY, value BLOB NOT NULL, updated BIGINT NOT NULL, expires BIGINT NOT NULL
);
CREATE TABLE learned ( -- what platforms have said, such as the new id of a chat
	key TEXT PRIMARY KEY, value BLOB NOT NULL, updated BIGINT NOT NULL, expires BIGINT NOT NULL
);
CREATE TABLE tickets (
	key TEXT PRIMARY KEY, value BLOB NOT NULL, updated BIGINT NOT NULL, expires BIGINT NOT NULL
);
CREATE TABLE results ( -- answers of webhooks
	key TEXT PRIMARY KEY, value BLOB NOT NULL, updated BIGINT NOT NULL, expires BIGINT NOT NULL,
	session TEXT NOT NULL -- hash
);
CREATE INDEX windows_by_date ON windows (updated);
CREATE INDEX conversations_by_date ON conversations (updated);
CREATE INDEX learned_by_date ON learned (updated);
CREATE INDEX results_by_date ON results (updated);
CREATE INDEX results_by_session ON results (session);
