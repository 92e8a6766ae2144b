-- What searches look into first: blocks of some entries of a tape, with all that is in their text, some letters at a time. A tape that
-- was there before is taken in when something is appended to it, or searched.
CREATE TABLE blocks (
    tape  bigint NOT NULL, -- tapes.id
    first bigint NOT NULL, -- ids of its first and last entry
    last  bigint NOT NULL,
    grams tsvector, -- null where it has more than can be held: then anything may be in it
    PRIMARY KEY (tape, first)
);

-- Without a list of what is to be sorted in later, which every search would go through.
CREATE INDEX blocks_grams ON blocks USING gin (grams) WITH (fastupdate = off);
CREATE INDEX blocks_any ON blocks (tape, first) WHERE grams IS NULL;

ALTER TABLE tapes
    ADD COLUMN indexed bigint NOT NULL DEFAULT 0, -- id of the last entry that is in a block
    ADD COLUMN loose   bigint NOT NULL DEFAULT 0; -- how many entries follow it

UPDATE tapes SET loose = entries;
