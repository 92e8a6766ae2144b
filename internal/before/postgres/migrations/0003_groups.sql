-- A page of the sessions of one owner. The text before the first '#' of a session's id is its group: all sessions of an owner have one.
-- An id may be longer than what an index takes.
CREATE INDEX tapes_place_group ON tapes (place, left(split_part(session, '#', 1), 128), updated DESC, name) WHERE listed;

-- Its index found sessions by the beginning of their ids, but not in order.
ALTER TABLE tapes DROP COLUMN head;
