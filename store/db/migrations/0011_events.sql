-- Events of chat platforms: those that wait or run, and for some time those that have ended, so that none runs twice. Dates are microseconds
-- since 1970.
CREATE TABLE events (
	key TEXT PRIMARY KEY,
	login TEXT NOT NULL,       -- channel, or channel@account
	lane TEXT NOT NULL,        -- conversation and thread
	bundle TEXT NOT NULL,      -- '': none
	raw BLOB NOT NULL,
	state TEXT NOT NULL,       -- waiting, parked, running, merged (claimed with its leader), ended
	leader TEXT NOT NULL,      -- of merged: the key of the event that it was claimed with
	replica TEXT NOT NULL,     -- that runs it
	arrived BIGINT NOT NULL,
	due BIGINT NOT NULL,
	brief BIGINT NOT NULL,     -- 1: the key is forgotten soon
	session TEXT NOT NULL,
	attempts BIGINT NOT NULL,
	crashes BIGINT NOT NULL,
	begun BIGINT NOT NULL,
	progress BLOB NOT NULL,
	parked TEXT NOT NULL,      -- of parked: what it waits for
	outcome TEXT NOT NULL,
	expires BIGINT NOT NULL    -- of ended
);
CREATE INDEX events_open ON events (lane, arrived, key) WHERE state <> 'ended';
CREATE INDEX events_merged ON events (leader) WHERE state = 'merged';
CREATE INDEX events_expired ON events (expires) WHERE state = 'ended';

-- Replies to chat platforms that are still to be sent.
CREATE TABLE replies (
	id BIGINT PRIMARY KEY,
	login TEXT NOT NULL,
	target TEXT NOT NULL,
	session TEXT NOT NULL,
	block BLOB NOT NULL,
	created BIGINT NOT NULL,
	due BIGINT NOT NULL,
	attempts BIGINT NOT NULL,
	replica TEXT NOT NULL,     -- that is sending it; '': none
	unsure BIGINT NOT NULL     -- 1: an attempt was begun whose outcome is not known
);
CREATE INDEX replies_by_target ON replies (target, id);
CREATE INDEX replies_by_session ON replies (session);

DROP TABLE records;
DROP TABLE tables;
