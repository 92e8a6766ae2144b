-- Requests between replicas, and answers, until they are read. A crash may lose them: then the asking replica asks again.
CREATE UNLOGGED TABLE messages (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    recipient text COLLATE "C" NOT NULL,
    sender    text COLLATE "C" NOT NULL,
    number    bigint NOT NULL, -- of the request, by its sender
    answer    boolean NOT NULL,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    data      bytea NOT NULL
);

CREATE INDEX messages_recipient ON messages (recipient, id);
CREATE INDEX messages_at ON messages (at);

ALTER TABLE messages ALTER COLUMN data SET STORAGE EXTERNAL;
