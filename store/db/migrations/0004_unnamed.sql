-- 1 if no request has named the session: its only turn has given it its id.
ALTER TABLE sessions ADD COLUMN unnamed BIGINT NOT NULL DEFAULT 0;
CREATE INDEX sessions_unnamed ON sessions (updated) WHERE parent = '' AND unnamed = 1;
