-- The process that has last taken the lease of the session: a random number of it, or 0.
ALTER TABLE sessions ADD COLUMN holder BIGINT NOT NULL DEFAULT 0;
