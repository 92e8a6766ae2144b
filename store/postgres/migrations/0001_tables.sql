-- Revisions are microseconds of the database's clock, or the one before and 1. So none is given twice, even if the machine fails and the
-- last changes of a table that is not synced are lost.

CREATE TABLE tables (
    id        integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name      text COLLATE "C" NOT NULL UNIQUE,
    rev       bigint NOT NULL DEFAULT 0, -- of the last change
    records   bigint NOT NULL DEFAULT 0,
    bytes     bigint NOT NULL DEFAULT 0, -- sum of their sizes
    lowest    bigint NOT NULL DEFAULT 0, -- no record has this revision or a lower one
    forgotten bigint NOT NULL DEFAULT 0  -- removals up to this revision may be missing in removed
) WITH (fillfactor = 10); -- each change of a table updates its row: there is room for many versions of it

CREATE TABLE records (
    tab     integer NOT NULL, -- tables.id
    key     text COLLATE "C" NOT NULL,
    made    bigint NOT NULL,
    rev     bigint NOT NULL,
    id      bytea NOT NULL, -- of the put that wrote it last
    at      timestamptz NOT NULL,
    expires timestamptz,
    size    integer NOT NULL, -- of key, meta and body
    meta    bytea NOT NULL,
    body    bytea NOT NULL,
    PRIMARY KEY (tab, key)
);

CREATE UNIQUE INDEX records_rev ON records (tab, rev);
CREATE INDEX records_expires ON records (tab, expires) WHERE expires IS NOT NULL;

-- A change of a record alone neither reads nor writes a body that has more than about 2 KB. Compressing would cost more than it saves.
ALTER TABLE records ALTER COLUMN body SET STORAGE EXTERNAL;

-- The last removal of a key, for some minutes: watchers learn of it, and a deletion that is sent again is found.
CREATE TABLE removed (
    tab         integer NOT NULL,
    key         text COLLATE "C" NOT NULL,
    rev         bigint NOT NULL, -- of the removal
    id          bytea,           -- of the put that deleted the record; null: it has expired or was the oldest
    was_id      bytea NOT NULL,  -- the record
    was_made    bigint NOT NULL,
    was_rev     bigint NOT NULL,
    was_at      timestamptz NOT NULL,
    was_expires timestamptz,
    was_meta    bytea NOT NULL,
    PRIMARY KEY (tab, key)
);

CREATE UNIQUE INDEX removed_rev ON removed (tab, rev);

-- revision_at is the lowest revision that a change at a moment may get.
CREATE FUNCTION revision_at(moment timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT (extract(epoch FROM moment) * 1000000)::bigint
$$;

-- remove_record removes a record at a revision. The caller has locked the table's row.
CREATE FUNCTION remove_record(tab_id integer, of_key text, at_rev bigint, by_id bytea) RETURNS void
LANGUAGE sql SET search_path FROM CURRENT AS $$
    WITH was AS (DELETE FROM records WHERE tab = tab_id AND key = of_key RETURNING id, made, rev, at, expires, meta)
    INSERT INTO removed (tab, key, rev, id, was_id, was_made, was_rev, was_at, was_expires, was_meta)
        SELECT tab_id, of_key, at_rev, by_id, was.* FROM was
    ON CONFLICT (tab, key) DO UPDATE SET (rev, id, was_id, was_made, was_rev, was_at, was_expires, was_meta) =
        (excluded.rev, excluded.id, excluded.was_id, excluded.was_made, excluded.was_rev, excluded.was_at, excluded.was_expires, excluded.was_meta)
$$;

-- expire_records removes at most so many records that have expired, but not one key, at revisions after a given one. It returns how many
-- records and bytes that were. The caller has locked the table's row.
CREATE FUNCTION expire_records(tab_id integer, moment timestamptz, after_rev bigint, most integer, except_key text, OUT records bigint, OUT bytes bigint)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    old record;
BEGIN
    records := 0;
    bytes := 0;
    FOR old IN SELECT key, size FROM records WHERE tab = tab_id AND expires <= moment AND key <> except_key ORDER BY expires LIMIT most LOOP
        records := records + 1;
        bytes := bytes + old.size;
        PERFORM remove_record(tab_id, old.key, after_rev + records, NULL);
    END LOOP;
END
$$;

-- put_records makes changes, each of which succeeds or fails by itself, and returns a row for each: its outcome, and the record that it
-- made, found or deleted. Outcomes are done, same (an attempt before has made the change), moved, absent and full. Its transaction waits
-- for the disk only if it is durable; then the caller sends the notice. An after of -1 fits every revision. Lives are microseconds. A null body stays as it is.
CREATE FUNCTION put_records(
    tab_id integer, durable boolean, channel text, max_records bigint, max_bytes bigint, drop_oldest boolean,
    keys text[], ids bytea[], afters bigint[], metas bytea[], bodies bytea[], lives bigint[], deletes boolean[]
) RETURNS TABLE (outcome text, made bigint, rev bigint, meta bytea, at timestamptz, expires timestamptz)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    t      record; -- the table's row
    p      record; -- the put
    was    record; -- the record that is there
    old    record; -- a removal by this put, or of what it has written
    moment timestamptz;
    first  bigint; -- revisions of this call are higher
    next   bigint; -- the last one that was given
    there  boolean;
    alive  boolean;
    again  boolean := false; -- an attempt before has written something
    swept  boolean := false;
    bytes  bigint;  -- of the new record
    more   bigint;  -- than the table had
BEGIN
    IF NOT durable THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    SELECT * INTO STRICT t FROM tables WHERE id = tab_id FOR NO KEY UPDATE;
    moment := clock_timestamp();
    first := greatest(t.rev, revision_at(moment));
    next := first;
    FOR p IN SELECT * FROM unnest(keys, ids, afters, metas, bodies, lives, deletes) AS u (key, id, after, meta, body, life, deletes) LOOP
        outcome := NULL; made := NULL; rev := NULL; meta := NULL; at := NULL; expires := NULL;
        SELECT id, made, rev, at, expires, size, meta INTO was FROM records WHERE tab = tab_id AND key = p.key;
        there := FOUND;
        alive := there AND (was.expires IS NULL OR was.expires > moment);
        IF alive AND was.id = p.id THEN
            outcome := 'same';
            again := true;
        ELSIF p.deletes OR NOT alive THEN
            SELECT * INTO old FROM removed WHERE tab = tab_id AND key = p.key AND (id = p.id OR was_id = p.id);
            IF FOUND AND p.deletes AND old.id = p.id THEN
                outcome := 'same'; made := old.was_made; rev := old.was_rev; meta := old.was_meta; at := old.was_at; expires := old.was_expires;
                again := true;
                RETURN NEXT;
                CONTINUE;
            ELSIF FOUND AND NOT p.deletes AND p.after <> -1 THEN
                outcome := 'moved'; -- it was written, and then removed
            END IF;
        END IF;
        IF outcome IS NULL AND p.after <> -1 AND (CASE WHEN alive THEN was.rev <> p.after ELSE p.after <> 0 END) THEN
            outcome := 'moved';
        ELSIF outcome IS NULL AND p.deletes AND NOT alive THEN
            outcome := 'absent';
        END IF;
        IF alive THEN
            made := was.made; rev := was.rev; meta := was.meta; at := was.at; expires := was.expires;
        END IF;
        IF outcome IS NOT NULL THEN
            RETURN NEXT;
            CONTINUE;
        END IF;

        IF p.deletes THEN
            next := next + 1;
            PERFORM remove_record(tab_id, p.key, next, p.id);
            t.records := t.records - 1;
            t.bytes := t.bytes - was.size;
            outcome := 'done';
            RETURN NEXT;
            CONTINUE;
        END IF;

        bytes := octet_length(p.key) + octet_length(p.meta) + coalesce(octet_length(p.body), 0);
        IF alive AND p.body IS NULL THEN
            bytes := octet_length(p.meta) + was.size - octet_length(was.meta);
        END IF;
        more := bytes;
        IF there THEN
            more := bytes - was.size;
        END IF;
        LOOP
            EXIT WHEN (there OR max_records = 0 OR t.records < max_records) AND (more <= 0 OR max_bytes = 0 OR t.bytes + more <= max_bytes);
            IF NOT swept THEN
                swept := true;
                SELECT * INTO old FROM expire_records(tab_id, moment, next, 1000, p.key);
                next := next + old.records;
                t.records := t.records - old.records;
                t.bytes := t.bytes - old.bytes;
                CONTINUE;
            END IF;
            IF drop_oldest THEN
                SELECT key, rev, size INTO old FROM records
                    WHERE tab = tab_id AND rev > t.lowest AND rev <= first AND key <> p.key ORDER BY rev LIMIT 1;
            END IF;
            IF NOT drop_oldest OR NOT FOUND THEN
                outcome := 'full';
                EXIT;
            END IF;
            next := next + 1;
            PERFORM remove_record(tab_id, old.key, next, NULL);
            t.lowest := old.rev;
            t.records := t.records - 1;
            t.bytes := t.bytes - old.size;
        END LOOP;
        IF outcome = 'full' THEN
            IF there THEN
                t.lowest := least(t.lowest, was.rev - 1); -- the search for the oldest has skipped it
            END IF;
            RETURN NEXT;
            CONTINUE;
        END IF;

        next := next + 1;
        IF NOT alive THEN
            made := next;
        END IF;
        rev := next; meta := p.meta; at := moment;
        expires := CASE WHEN p.life > 0 THEN moment + p.life * interval '1 microsecond' END;
        IF NOT there THEN
            INSERT INTO records (tab, key, made, rev, id, at, expires, size, meta, body)
                VALUES (tab_id, p.key, next, next, p.id, moment, put_records.expires, bytes, p.meta, coalesce(p.body, ''));
            t.records := t.records + 1;
        ELSIF alive AND p.body IS NULL THEN
            UPDATE records SET (rev, id, at, expires, size, meta) = (next, p.id, moment, put_records.expires, bytes, p.meta)
                WHERE tab = tab_id AND key = p.key;
        ELSE
            UPDATE records SET (made, rev, id, at, expires, size, meta, body) =
                (put_records.made, next, p.id, moment, put_records.expires, bytes, p.meta, coalesce(p.body, ''))
                WHERE tab = tab_id AND key = p.key;
        END IF;
        t.bytes := t.bytes + more;
        outcome := 'done';
        RETURN NEXT;
    END LOOP;
    IF next > first OR again AND durable THEN -- what an attempt before has written is durable with this transaction
        UPDATE tables SET (rev, records, bytes, lowest) = (CASE WHEN next > first THEN next ELSE t.rev END, t.records, t.bytes, t.lowest) WHERE id = tab_id;
    END IF;
    IF next > first AND NOT durable THEN -- a commit that notifies holds a lock of the whole database, also while it waits for the disk
        PERFORM pg_notify(channel, tab_id || ' ' || next);
    END IF;
END
$$;

-- sweep_table removes at most so many records that have expired, and as many removals that are older than forget. It returns the larger
-- number of the two.
CREATE FUNCTION sweep_table(tab_id integer, channel text, most integer, forget interval) RETURNS bigint
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    t       record;
    expired record;
    moment  timestamptz;
    last    bigint; -- revision
    forgot  bigint;
    upto    bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    SELECT * INTO STRICT t FROM tables WHERE id = tab_id FOR NO KEY UPDATE;
    moment := clock_timestamp();
    last := greatest(t.rev, revision_at(moment));
    SELECT * INTO expired FROM expire_records(tab_id, moment, last, most, '');
    WITH old AS (SELECT rev FROM removed WHERE tab = tab_id AND rev <= revision_at(moment - forget) ORDER BY rev LIMIT most),
        gone AS (DELETE FROM removed WHERE tab = tab_id AND rev IN (SELECT rev FROM old) RETURNING rev)
        SELECT count(*), max(rev) INTO forgot, upto FROM gone;
    IF expired.records > 0 OR forgot > 0 THEN
        UPDATE tables SET (rev, records, bytes, forgotten) =
            (CASE WHEN expired.records > 0 THEN last + expired.records ELSE t.rev END,
                t.records - expired.records, t.bytes - expired.bytes, greatest(t.forgotten, upto))
            WHERE id = tab_id;
    END IF;
    IF expired.records > 0 THEN
        PERFORM pg_notify(channel, tab_id || ' ' || last + expired.records);
    END IF;
    RETURN greatest(expired.records, forgot);
END
$$;
