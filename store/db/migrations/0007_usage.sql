-- What calls of models took.
CREATE TABLE usage (
	day TEXT NOT NULL,       -- such as 2026-11-24, UTC
	owner TEXT NOT NULL,     -- who asked; '' if nobody has to say it
	model TEXT NOT NULL,     -- provider:name
	input BIGINT NOT NULL,   -- tokens
	output BIGINT NOT NULL,  -- tokens
	cost BIGINT NOT NULL,    -- in millionths of a dollar
	PRIMARY KEY (day, owner, model)
);
