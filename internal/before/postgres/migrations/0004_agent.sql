-- The agent that the newest turn of a session was for. Tapes from before name none until their next turn.
ALTER TABLE tapes ADD COLUMN agent text NOT NULL DEFAULT '';
