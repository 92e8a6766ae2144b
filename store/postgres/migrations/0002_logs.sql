CREATE TABLE spaces (
    id    integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name  text COLLATE "C" NOT NULL UNIQUE,
    part  integer NOT NULL DEFAULT 0, -- of batches: where new ones go
    keep  bigint NOT NULL DEFAULT 0,  -- microseconds; 0: until deleted
    bytes bigint -- of all entries; null if they are not bounded
) WITH (fillfactor = 10);

-- Parts of batches that are dropped whole. The database's clock may be set, so each sweep adds to age the time since the one before, but
-- never much.
CREATE TABLE parts (
    id     integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    space  integer NOT NULL, -- spaces.id
    closed boolean NOT NULL DEFAULT false, -- nothing is added to it
    gone   boolean NOT NULL DEFAULT false, -- logs know that its entries have expired
    age    bigint NOT NULL DEFAULT 0,      -- microseconds since it was opened or closed
    swept  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- A revision is rev and batch together: the database may lose the last batches of a space that is not synced, and rev with them.
CREATE TABLE logs (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- never used again: a log that is deleted and created again is another
    space     integer NOT NULL, -- spaces.id
    part_from integer NOT NULL, -- batches are in parts from this one
    part      integer NOT NULL, -- of the last batch
    rev       bigint NOT NULL,
    batch     uuid NOT NULL,    -- the last batch
    behind    uuid NOT NULL,    -- the batch before it; of the first, itself
    first     bigint NOT NULL,  -- the first entry that is kept, or last + 1
    last      bigint NOT NULL,  -- the last entry that was written
    last_mark bigint NOT NULL,
    entries   bigint NOT NULL,
    bytes     bigint NOT NULL,
    created   timestamptz NOT NULL,
    updated   timestamptz NOT NULL,
    listed    timestamptz,      -- updated, in an indexed space. Without it, an append changes no index.
    trimmed   boolean NOT NULL, -- entries were removed
    name      text COLLATE "C" NOT NULL,
    folder    text COLLATE "C" NOT NULL, -- the name up to the last /
    label     bytea NOT NULL,
    head      bytea NOT NULL
) WITH (fillfactor = 60);

CREATE UNIQUE INDEX logs_name ON logs (space, name);
CREATE INDEX logs_listed ON logs (space, folder, listed DESC, name) WHERE listed IS NOT NULL;
CREATE INDEX logs_label ON logs (space, folder, label, listed DESC, name) WHERE listed IS NOT NULL;
CREATE INDEX logs_part ON logs (part_from) WHERE part_from > 0;

-- A row has entries of one batch whose numbers follow one another. A marked entry has a row of its own. The data of one entry is the entry;
-- of several, each is behind its length, a varint.
CREATE TABLE batches (
    log   bigint NOT NULL,  -- logs.id
    first bigint NOT NULL,  -- number of the first entry
    part  integer NOT NULL,
    n     integer NOT NULL, -- entries
    size  integer NOT NULL, -- bytes of entries
    mark  boolean NOT NULL,
    data  bytea NOT NULL,
    PRIMARY KEY (log, first, part)
) PARTITION BY LIST (part);

CREATE INDEX batches_marks ON batches (log, first) WHERE mark;

CREATE TABLE batches_0 PARTITION OF batches FOR VALUES IN (0); -- kept until deleted

-- Other parts live for hours. Compressing would cost more than it saves.
CREATE TABLE batches_like (LIKE batches);
ALTER TABLE batches_like ALTER COLUMN data SET STORAGE EXTERNAL;

-- Logs that were deleted, for some minutes: the batch that created one may be sent again, and its readers want to know.
CREATE TABLE deleted (
    log   bigint PRIMARY KEY, -- logs.id
    space integer NOT NULL,
    name  text COLLATE "C" NOT NULL,
    batch uuid NOT NULL, -- the last one
    at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE INDEX deleted_batch ON deleted (batch);
CREATE INDEX deleted_at ON deleted (at);

-- open_part makes a part and returns its number. The caller has locked the space's row.
CREATE FUNCTION open_part(space_id integer) RETURNS integer
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    number integer;
BEGIN
    INSERT INTO parts (space) VALUES (space_id) RETURNING id INTO number;
    EXECUTE format('CREATE TABLE batches_%s (LIKE batches_like INCLUDING STORAGE)', number);
    EXECUTE format('ALTER TABLE batches ATTACH PARTITION batches_%s FOR VALUES IN (%1$s)', number); -- it blocks neither readers nor writers
    RETURN number;
END
$$;

-- open_space returns the id of a space, creates it if it does not exist, and says whether its batches are dropped by parts.
CREATE FUNCTION open_space(space_name text, keep_for bigint, bounded boolean, OUT id integer, OUT parted boolean)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    s record;
BEGIN
    INSERT INTO spaces (name) VALUES (space_name) ON CONFLICT (name) DO NOTHING;
    SELECT * INTO STRICT s FROM spaces WHERE name = space_name FOR NO KEY UPDATE;
    IF keep_for > 0 AND s.part = 0 AND NOT EXISTS (SELECT FROM logs WHERE space = s.id) THEN
        s.part := open_part(s.id);
    END IF;
    IF NOT bounded THEN
        s.bytes := NULL;
    ELSIF s.bytes IS NULL THEN
        SELECT coalesce(sum(bytes), 0) INTO s.bytes FROM logs WHERE space = s.id;
    END IF;
    UPDATE spaces SET (part, keep, bytes) = (s.part, keep_for, s.bytes) WHERE id = s.id;
    id := s.id;
    parted := s.part > 0;
END
$$;

-- append_next writes batches that have at most one row each, and that name the revision behind which they are. It returns a row for each
-- that it has written: the others may be written already, or their revision is not that of the log. floors are numbers that the log's
-- last one must be below, or 0. A head of null stays, and only then is returned.
CREATE FUNCTION append_next(
    space_id integer, durable boolean, indexed boolean,
    names text[], ids uuid[], revs bigint[], behinds uuid[], floors bigint[], updates timestamptz[], heads bytea[],
    starts bigint[], counts integer[], sizes integer[], marks boolean[], datas bytea[]
) RETURNS TABLE (
    ord bigint, outcome text, rev bigint, batch uuid, first bigint, last bigint, last_mark bigint, entries bigint, bytes bigint,
    created timestamptz, updated timestamptz, label bytea, head bytea
) LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    moment   timestamptz := clock_timestamp();
    new_part integer;
BEGIN
    IF NOT durable THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    SELECT part INTO STRICT new_part FROM spaces WHERE id = space_id;
    RETURN QUERY WITH b AS (
        SELECT * FROM unnest(names, ids, revs, behinds, floors, updates, heads, starts, counts, sizes, marks, datas) WITH ORDINALITY
            AS b (name, id, rev, behind, floor, updated, head, start, n, size, mark, data, ord)
    ), l AS (
        UPDATE logs SET
            rev = logs.rev + 1,
            batch = b.id,
            behind = logs.batch,
            part = new_part,
            first = CASE WHEN b.n > 0 AND logs.entries = 0 THEN greatest(logs.last + 1, b.start) ELSE logs.first END,
            last = CASE WHEN b.n > 0 THEN greatest(logs.last + 1, b.start) + b.n - 1 ELSE logs.last END,
            last_mark = CASE WHEN b.mark THEN greatest(logs.last + 1, b.start) ELSE logs.last_mark END,
            entries = logs.entries + b.n,
            bytes = logs.bytes + b.size,
            updated = coalesce(b.updated, moment),
            listed = CASE WHEN append_next.indexed THEN coalesce(b.updated, moment) END,
            head = coalesce(b.head, logs.head)
        FROM b
        WHERE logs.space = space_id AND logs.name = b.name AND logs.rev = b.rev AND logs.batch = b.behind AND (b.floor = 0 OR logs.last < b.floor)
        RETURNING b.ord, b.n, b.size, b.mark, b.data, logs.id, logs.part, logs.rev, logs.batch, logs.first, logs.last, logs.last_mark, logs.entries, logs.bytes,
            logs.created, logs.updated, logs.label, CASE WHEN b.head IS NULL THEN logs.head END AS head
    ), i AS (
        INSERT INTO batches (log, first, part, n, size, mark, data) SELECT l.id, l.last - l.n + 1, l.part, l.n, l.size, l.mark, l.data FROM l WHERE l.n > 0
    )
    SELECT l.ord, 'done', l.rev, l.batch, l.first, l.last, l.last_mark, l.entries, l.bytes, l.created, l.updated, l.label, l.head FROM l;
END
$$;

-- append_each writes batches, each of which succeeds or fails by itself, and returns a row for each: its outcome, and what the log is.
-- Outcomes are done, same (an attempt before has written the batch), moved, absent, low (an entry has a number that was given before) and
-- full. Kinds are what a batch may be behind: 0 nothing, 1 anything, 2 a revision, 3 nothing that there is. Rows of entries name their batch by its ordinal.
CREATE FUNCTION append_each(
    space_id integer, durable boolean, indexed boolean, max_bytes bigint,
    names text[], ids uuid[], kinds integer[], revs bigint[], behinds uuid[], floors bigint[], updates timestamptz[], heads bytea[], labels bytea[],
    owners integer[], starts bigint[], counts integer[], sizes integer[], marks boolean[], datas bytea[]
) RETURNS TABLE (
    ord bigint, outcome text, rev bigint, batch uuid, first bigint, last bigint, last_mark bigint, entries bigint, bytes bigint,
    created timestamptz, updated timestamptz, label bytea, head bytea
) LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    s      record; -- the space
    b      record; -- the batch
    l      record; -- the log
    r      record; -- a row of entries
    moment timestamptz := clock_timestamp();
    there  boolean;
    added  bigint;
    number bigint;
BEGIN
    IF NOT durable THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    IF max_bytes > 0 THEN
        SELECT * INTO STRICT s FROM spaces WHERE id = space_id FOR NO KEY UPDATE;
        added := coalesce(s.bytes, 0);
    END IF;
    -- All lock logs in the order of their names.
    FOR b IN SELECT u.*, coalesce((SELECT sum(z.size) FROM unnest(owners, sizes) AS z (owner, size) WHERE z.owner = u.ord), 0) AS size
            FROM unnest(names, ids, kinds, revs, behinds, floors, updates, heads, labels) WITH ORDINALITY AS u (name, id, kind, rev, behind, floor, updated, head, label, ord)
            ORDER BY u.name COLLATE "C", u.ord LOOP
        outcome := NULL;
        SELECT * INTO l FROM logs WHERE space = space_id AND name = b.name FOR NO KEY UPDATE;
        there := FOUND;
        IF NOT there AND (b.kind > 1 OR b.kind = 0 AND EXISTS (SELECT FROM deleted WHERE batch = b.id AND space = space_id AND name = b.name)) THEN
            outcome := 'absent';
        ELSIF there AND l.batch = b.id AND (b.kind = 1 OR b.kind = 0 AND l.behind = b.id OR b.kind = 2 AND l.behind = b.behind) THEN
            outcome := 'same';
            UPDATE logs SET batch = batch WHERE id = l.id; -- what an attempt before has written is durable with this transaction
        ELSIF there AND (b.kind IN (0, 3) OR b.kind = 2 AND (l.rev <> b.rev OR l.batch <> b.behind)) THEN
            outcome := 'moved';
        ELSIF there AND b.floor > 0 AND l.last >= b.floor THEN
            outcome := 'low';
        ELSIF max_bytes > 0 AND b.size > 0 AND added + b.size > max_bytes THEN
            outcome := 'full';
        ELSIF NOT there THEN
            INSERT INTO logs (space, part_from, part, rev, batch, behind, first, last, last_mark, entries, bytes, created, updated, trimmed, name, folder, label, head)
                SELECT space_id, part, part, 0, b.id, b.id, 0, 0, 0, 0, 0, moment, moment, false, b.name, coalesce(substring(b.name FROM '^.*/'), ''), b.label, '' FROM spaces WHERE id = space_id
                ON CONFLICT (space, name) DO NOTHING RETURNING * INTO l;
            IF NOT FOUND THEN -- another process has created it meanwhile
                SELECT * INTO l FROM logs WHERE space = space_id AND name = b.name FOR NO KEY UPDATE;
                outcome := CASE WHEN NOT FOUND THEN 'absent' WHEN l.batch = b.id THEN 'same' WHEN b.kind = 0 THEN 'moved' WHEN b.floor > 0 AND l.last >= b.floor THEN 'low' END;
            END IF;
        END IF;
        IF outcome IS NULL THEN
            SELECT part INTO STRICT l.part FROM spaces WHERE id = space_id; -- a part is older than those of later batches
            FOR r IN SELECT * FROM unnest(owners, starts, counts, sizes, marks, datas) WITH ORDINALITY AS u (owner, start, n, size, mark, data, ord)
                    WHERE u.owner = b.ord ORDER BY u.ord LOOP
                number := greatest(l.last + 1, r.start);
                INSERT INTO batches (log, first, part, n, size, mark, data) VALUES (l.id, number, l.part, r.n, r.size, r.mark, r.data);
                IF l.entries = 0 THEN
                    l.first := number;
                END IF;
                IF r.mark THEN
                    l.last_mark := number;
                END IF;
                l.last := number + r.n - 1;
                l.entries := l.entries + r.n;
            END LOOP;
            l.rev := l.rev + 1;
            l.behind := l.batch;
            l.batch := b.id;
            l.bytes := l.bytes + b.size;
            l.updated := coalesce(b.updated, moment);
            l.head := coalesce(b.head, l.head);
            UPDATE logs SET (part, rev, batch, behind, first, last, last_mark, entries, bytes, updated, listed, head) =
                (l.part, l.rev, l.batch, l.behind, l.first, l.last, l.last_mark, l.entries, l.bytes, l.updated, CASE WHEN append_each.indexed THEN l.updated END, l.head)
                WHERE id = l.id;
            added := added + b.size;
            outcome := 'done';
        END IF;
        ord := b.ord; rev := coalesce(l.rev, 0); batch := coalesce(l.batch, b.id); first := coalesce(l.first, 0); last := coalesce(l.last, 0);
        last_mark := coalesce(l.last_mark, 0); entries := coalesce(l.entries, 0); bytes := coalesce(l.bytes, 0);
        created := coalesce(l.created, moment); updated := coalesce(l.updated, moment); label := coalesce(l.label, ''); head := coalesce(l.head, '');
        RETURN NEXT;
    END LOOP;
    IF max_bytes > 0 THEN
        UPDATE spaces SET bytes = added WHERE id = space_id;
    END IF;
END
$$;

-- trim_log removes rows whose entries all have numbers below a given one. Rows in parts stay until their part is dropped.
CREATE FUNCTION trim_log(space_id integer, log_name text, below bigint) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    s        record; -- the space
    l        record; -- the log
    removed  record;
    first_of bigint; -- the first row that stays
BEGIN
    SELECT * INTO STRICT s FROM spaces WHERE id = space_id;
    IF s.bytes IS NOT NULL THEN
        SELECT * INTO STRICT s FROM spaces WHERE id = space_id FOR NO KEY UPDATE; -- before the log, as append_each does
    END IF;
    SELECT * INTO l FROM logs WHERE space = space_id AND name = log_name FOR NO KEY UPDATE;
    IF NOT FOUND OR l.entries = 0 OR below <= l.first THEN
        RETURN;
    END IF;
    SELECT first INTO first_of FROM batches WHERE log = l.id AND part >= l.part_from AND first + n > below
        AND first >= coalesce((SELECT max(first) FROM batches WHERE log = l.id AND part >= l.part_from AND first <= below), 0) ORDER BY first LIMIT 1;
    first_of := coalesce(first_of, l.last + 1);
    IF s.part = 0 THEN
        WITH gone AS (DELETE FROM batches_0 WHERE log = l.id AND first < first_of RETURNING n, size)
            SELECT coalesce(sum(n), 0) AS n, coalesce(sum(size), 0) AS size INTO removed FROM gone;
    ELSE
        SELECT coalesce(sum(n), 0) AS n, coalesce(sum(size), 0) AS size INTO removed FROM batches
            WHERE log = l.id AND part >= l.part_from AND first >= l.first AND first < first_of;
    END IF;
    IF removed.n = 0 THEN
        RETURN;
    END IF;
    UPDATE logs SET (first, last_mark, entries, bytes, trimmed) =
        (first_of, CASE WHEN last_mark >= first_of THEN last_mark ELSE 0 END, entries - removed.n, bytes - removed.size, true) WHERE id = l.id;
    UPDATE spaces SET bytes = bytes - removed.size WHERE id = space_id AND bytes IS NOT NULL;
END
$$;

-- delete_logs removes a log and all whose names lie between two, and returns their names.
CREATE FUNCTION delete_logs(space_id integer, durable boolean, log_name text, below text, beyond text) RETURNS SETOF text
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    ids  bigint[];
    size bigint;
BEGIN
    IF NOT durable THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    PERFORM FROM spaces WHERE id = space_id AND bytes IS NOT NULL FOR NO KEY UPDATE;
    PERFORM FROM logs WHERE space = space_id AND (name = log_name OR name > below AND name < beyond) ORDER BY name FOR UPDATE;
    WITH gone AS (DELETE FROM logs WHERE space = space_id AND (name = log_name OR name > below AND name < beyond) RETURNING *),
        noted AS (INSERT INTO deleted (log, space, name, batch) SELECT id, space, name, batch FROM gone)
        SELECT array_agg(id), sum(bytes) INTO ids, size FROM gone;
    IF ids IS NULL THEN
        RETURN;
    END IF;
    DELETE FROM batches WHERE log = ANY (ids);
    UPDATE spaces SET bytes = bytes - size WHERE id = space_id AND bytes IS NOT NULL;
    RETURN QUERY SELECT name FROM deleted WHERE log = ANY (ids);
END
$$;

-- sweep_parts lets parts grow older, by at most a step, opens a new part for spaces whose part is older than a period and not empty, and
-- lets logs forget the entries of closed parts that were kept for as long as their space wants, and a margin: for transactions that go on.
-- It returns the parts to drop: that blocks everyone who reads or writes batches, so it is a transaction of its own.
CREATE FUNCTION sweep_parts(step bigint, period bigint, margin bigint) RETURNS SETOF integer
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    p      record;
    filled boolean;
    size   bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    FOR p IN SELECT parts.*, spaces.keep, spaces.bytes FROM parts JOIN spaces ON spaces.id = parts.space ORDER BY parts.id FOR NO KEY UPDATE OF parts SKIP LOCKED LOOP
        p.age := p.age + least(greatest((extract(epoch FROM moment - p.swept) * 1000000)::bigint, 0), step);
        UPDATE parts SET (age, swept) = (p.age, moment) WHERE id = p.id;
        IF p.gone THEN
            RETURN NEXT p.id;
        ELSIF NOT p.closed AND p.keep > 0 AND p.age >= least(period, p.keep) THEN
            EXECUTE format('SELECT EXISTS (SELECT FROM batches_%s)', p.id) INTO filled;
            IF filled THEN
                PERFORM FROM spaces WHERE id = p.space FOR NO KEY UPDATE;
                UPDATE spaces SET part = open_part(id) WHERE id = p.space;
                UPDATE parts SET (closed, age) = (true, 0) WHERE id = p.id;
            END IF;
        ELSIF p.closed AND p.keep > 0 AND p.age >= p.keep + margin THEN
            PERFORM FROM spaces WHERE id = p.space AND bytes IS NOT NULL FOR NO KEY UPDATE;
            WITH gone AS (DELETE FROM logs WHERE part_from BETWEEN 1 AND p.id AND part <= p.id AND space = p.space RETURNING bytes)
                SELECT coalesce(sum(bytes), 0) INTO size FROM gone;
            WITH old AS (SELECT id, bytes FROM logs WHERE part_from BETWEEN 1 AND p.id AND space = p.space FOR NO KEY UPDATE),
                kept AS (SELECT old.id, old.bytes AS before, k.* FROM old CROSS JOIN LATERAL (
                    SELECT min(b.first) AS first, coalesce(sum(b.n), 0) AS n, coalesce(sum(b.size), 0) AS size, coalesce(max(b.first) FILTER (WHERE b.mark), 0) AS mark
                        FROM batches b JOIN logs l ON l.id = b.log WHERE b.log = old.id AND b.part > p.id AND b.first >= l.first) k),
                forgot AS (UPDATE logs SET (part_from, trimmed, first, last_mark, entries, bytes) =
                    (p.id + 1, trimmed OR entries > kept.n, coalesce(kept.first, CASE WHEN last > 0 THEN last + 1 ELSE 0 END), kept.mark, kept.n, kept.size)
                    FROM kept WHERE logs.id = kept.id RETURNING kept.before - kept.size AS less)
                SELECT size + coalesce(sum(less), 0) INTO size FROM forgot;
            UPDATE spaces SET bytes = bytes - size WHERE id = p.space AND bytes IS NOT NULL;
            UPDATE parts SET gone = true WHERE id = p.id;
            RETURN NEXT p.id;
        END IF;
    END LOOP;
END
$$;

-- drop_part drops a part of which no log knows any more.
CREATE FUNCTION drop_part(part_id integer) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM set_config('lock_timeout', '1s', true); -- others wait as long
    PERFORM FROM parts WHERE id = part_id AND gone FOR UPDATE;
    IF FOUND THEN
        EXECUTE format('DROP TABLE batches_%s', part_id);
        DELETE FROM parts WHERE id = part_id;
    END IF;
END
$$;
