-- Texts that come from sessions may have what a text of PostgreSQL cannot (NUL, bytes that are no UTF-8) and stand here with
-- backslashes; see text.go. Their order is that of their bytes.

-- What is known of a tape without reading it.
CREATE TABLE tapes (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- never used again: a tape that is erased and begun anew is another
    name        text COLLATE "C" NOT NULL UNIQUE,
    listed      boolean NOT NULL, -- a session: neither a fork nor an import that goes on
    session     text COLLATE "C" NOT NULL,
    workspace   text COLLATE "C" NOT NULL,
    title       text NOT NULL,
    created     timestamptz NOT NULL, -- date of the first entry
    updated     timestamptz NOT NULL, -- date of the last entry
    entries     bigint NOT NULL,
    last_id     bigint NOT NULL,
    anchors     bigint NOT NULL,
    anchor_id   bigint NOT NULL, -- of the last anchor; 0 where there is none
    anchor_name text NOT NULL,
    anchor_date timestamptz NOT NULL,
    bytes       bigint NOT NULL,
    touched     timestamptz NOT NULL DEFAULT now(), -- by an import; one that was left behind is removed
    -- A path and a session's id may be longer than what an index takes.
    place       text COLLATE "C" NOT NULL GENERATED ALWAYS AS (left(workspace, 256)) STORED,
    head        text COLLATE "C" NOT NULL GENERATED ALWAYS AS (left(session, 128)) STORED
) WITH (fillfactor = 80);

CREATE INDEX tapes_updated ON tapes (updated DESC, name) WHERE listed;
CREATE INDEX tapes_place_updated ON tapes (place, updated DESC, name) WHERE listed;
CREATE INDEX tapes_place_head ON tapes (place, head) WHERE listed;

CREATE TABLE entries (
    tape    bigint NOT NULL, -- tapes.id
    id      bigint NOT NULL,
    date    timestamptz NOT NULL,
    batch   bigint, -- of a batch's first entry: by it, its writer knows it again
    kind    text NOT NULL,
    anchor  text, -- name of an anchor
    payload text NOT NULL, -- JSON, byte for byte
    meta    text NOT NULL, -- JSON, byte for byte; '' is {}
    PRIMARY KEY (tape, id)
);

CREATE INDEX entries_anchors ON entries (tape, id) WHERE anchor IS NOT NULL;

CREATE TABLE blobs (
    tape   bigint NOT NULL, -- tapes.id
    handle bytea NOT NULL, -- SHA-256 of data
    data   bytea NOT NULL,
    PRIMARY KEY (tape, handle)
);

-- So that a part of a blob can be read without the rest.
ALTER TABLE blobs ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE leases (
    name    text COLLATE "C" PRIMARY KEY,
    token   bigint NOT NULL, -- of the holder
    expires timestamptz NOT NULL
) WITH (fillfactor = 50);
