package db

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

// Bounds of a page of rows: a read transaction lasts no longer.
const (
	pageBytes   = 1 << 20
	pageRows    = 1024
	firstRows   = 64 // of the first page, because many readers stop early
	insertRows  = 50 // of one INSERT
	removeRows  = 1000
	removeParts = 16 // of blobs
	sessionRows = 200
)

// incarnation identifies a tape from its creation to its erasure.
type incarnation struct {
	tape   string
	number int64
}

// session is a row of the table sessions.
type session struct {
	tape.Info
	incarnation int64
	holder      int64 // see leases
	unnamed     int64 // 1 if no request has named it
}

func (s *session) key() incarnation { return incarnation{s.Tape, s.incarnation} }

const (
	sessionValues = `session, workspace, agent, title, entries, bytes, anchors, last_id, last_anchor, last_anchor_name, last_anchor_date, created, updated,
	holder, unnamed`
	sessionColumns = "tape, incarnation, " + sessionValues
)

// readSession reads a row that has sessionColumns.
func readSession(read row) (s session) {
	read(&s.Tape, &s.incarnation, &s.Session, &s.Workspace, &s.Agent, &s.Title, &s.Entries, &s.Bytes, &s.Anchors, &s.LastID,
		&s.LastAnchor.ID, &s.LastAnchor.Name, date{&s.LastAnchor.Date}, date{&s.Created}, date{&s.Updated}, &s.holder, &s.unnamed)
	return s
}

// findSession returns the session of a tape; found is false if it does not exist.
func (tx *Tx) findSession(name string) (s session, found bool) {
	for read := range tx.rows("SELECT "+sessionColumns+" FROM sessions WHERE tape = $1", name) {
		s, found = readSession(read), true
	}
	return s, found
}

// tapeExists reports whether a tape has not been erased, also if it was created again.
func (tx *Tx) tapeExists(i incarnation, suffix string) bool {
	return tx.exists("SELECT 1 FROM sessions WHERE tape = $1 AND incarnation = $2"+suffix, i.tape, i.number)
}

// append appends the entries that b.Check returned, and does not change them. The holder is that of the lease, or 0.
func (tx *Tx) append(name string, b tape.Batch, checked []tape.Entry, holder int64) (first, bytes int64) {
	now, remembered := tx.db.writer.sessions[name]
	if !remembered {
		if now, _ = tx.findSession(name); tx.err != nil {
			return 0, 0
		}
	}
	entries := slices.Clone(checked)
	refused := b.Number(entries, now.Info, tx.db.clock())
	if refused == nil && holder != 0 && now.Entries > 0 && now.holder != holder {
		refused = errLeaseLost
	}
	if refused == nil {
		next, rows := now.after(b, entries)
		if now.Entries == 0 {
			next.Tape, next.incarnation, next.holder = name, newID(), holder
		}
		if tx.saveSession(&next, now.LastID) {
			tx.db.writer.remember(next)
			tx.insertEntries(next.key(), rows)
			return entries[0].ID, next.Bytes - now.Bytes
		}
	}
	if remembered && tx.err == nil { // perhaps another process has changed the session
		delete(tx.db.writer.sessions, name)
		return tx.append(name, b, checked, holder)
	}
	tx.fail(cmp.Or(refused, errConflict))
	return 0, 0
}

// after returns the session with the entries of b, and their rows.
func (s session) after(b tape.Batch, entries []tape.Entry) (session, []entryRow) {
	s.AddBatch(b, entries)
	name := strings.TrimPrefix(s.Session, tape.OwnerOf(s.Session)+"#")
	rows := make([]entryRow, len(entries))
	for i, e := range entries {
		rows[i] = newEntryRow(e)
		s.Bytes += int64(len(rows[i].line))
		if turn := rows[i].turn; turn == name {
			s.unnamed = 1
		} else if turn != "" {
			s.unnamed = 0
		}
	}
	return s, rows
}

var (
	insertSession = "INSERT INTO sessions (" + sessionColumns + ", owner, parent) VALUES (" + parameters(1, 18) + ", '') ON CONFLICT DO NOTHING"
	updateSession = "UPDATE sessions SET (" + sessionValues + ", owner) = (" + parameters(3, 16) + ") WHERE tape = $1 AND incarnation = $2 AND last_id = $19 AND holder = $16"
)

// saveSession stores a session whose tape has the last id and the holder that are expected; with 0 it is new.
func (tx *Tx) saveSession(s *session, lastID int64) (saved bool) {
	anchored := int64(0)
	if s.LastAnchor.ID > 0 {
		anchored = s.LastAnchor.Date.UnixMicro()
	}
	query, args := insertSession, []any{
		s.Tape, s.incarnation, plainText(s.Session), plainText(s.Workspace), plainText(s.Agent), plainText(s.Title), s.Entries, s.Bytes, s.Anchors, s.LastID,
		s.LastAnchor.ID, plainText(s.LastAnchor.Name), anchored, s.Created.UnixMicro(), s.Updated.UnixMicro(), s.holder, s.unnamed, plainText(tape.OwnerOf(s.Session)),
	}
	if lastID > 0 {
		query, args = updateSession, append(args, lastID)
	}
	return tx.exec(query, args...) == 1
}

// entryRow is what the table entries has for an entry.
type entryRow struct {
	id, date   int64
	kind, turn string
	anchor     any // string, or nil
	line       string
}

func newEntryRow(e tape.Entry) entryRow {
	row := entryRow{id: e.ID, date: e.Date.UnixMicro(), kind: plainText(string(e.Kind)), line: string(e.AppendJSON(nil))}
	if strings.Contains(string(e.Meta), `"turn"`) {
		row.turn = plainText(tape.MetaOf(e).Turn)
	}
	if e.Kind == tape.KindAnchor {
		row.anchor = plainText(tape.AnchorOf(e).Name)
	}
	return row
}

// insertEntries inserts the rows of a tape's entries.
func (tx *Tx) insertEntries(of incarnation, rows []entryRow) {
	for len(rows) > 0 {
		n := min(len(rows), insertRows)
		query := strings.Builder{}
		query.WriteString("INSERT INTO entries (tape, incarnation, id, kind, anchor, turn, date, line) VALUES ")
		args := make([]any, 0, 8*n)
		for i, r := range rows[:n] {
			if i > 0 {
				query.WriteString(", ")
			}
			query.WriteString("(" + parameters(8*i+1, 8) + ")")
			args = append(args, of.tape, of.number, r.id, r.kind, r.anchor, r.turn, r.date, r.line)
		}
		tx.exec(query.String(), args...)
		rows = rows[n:]
	}
}

// parameters returns "$first, …" for n parameters.
func parameters(first, n int) string {
	b := make([]byte, 0, 5*n)
	for i := range n {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendInt(append(b, '$'), int64(first+i), 10)
	}
	return string(b)
}

// source implements [tape.Source]: a session's entries as they were when its row was read.
type source struct {
	db  *DB
	ctx context.Context
	*session
}

// Info implements [tape.Source].
func (s source) Info() tape.Info { return s.session.Info }

// Entries implements [tape.Source]. It reads pages. A tape that is erased meanwhile ends with [tape.ErrDeleted].
func (s source) Entries(after, before int64, newest, anchors bool) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		before = min(before, s.LastID+1)
		query := "SELECT line FROM entries WHERE tape = $1 AND incarnation = $2 AND id > $3 AND id < $4"
		if anchors {
			query += " AND anchor IS NOT NULL"
		}
		query += " ORDER BY id"
		if newest {
			query += " DESC"
		}
		query += " LIMIT $5"
		tx, last := s.db.reader(s.ctx), int64(0)
		readEntry := func(read row) (e tape.Entry, size int) {
			var line []byte
			read(&line)
			e, err := tape.ParseEntry(line)
			if err != nil {
				tx.fail(fmt.Errorf("%w: an entry of tape %s: %w", store.ErrDamaged, s.Tape, err))
			}
			return e, len(line)
		}
		for limit, more := firstRows, true; more; {
			var page []tape.Entry
			page, more = readPage(tx, limit, readEntry, query, s.Tape, s.incarnation, after, before)
			if n := len(page); n > 0 {
				last = page[n-1].ID
			}
			// Erasing removes the last entry first, so a reader that has got it has got all. Others may have got a part.
			if !more && (newest || anchors || last != s.LastID) && !tx.tapeExists(s.key(), "") {
				tx.fail(fmt.Errorf("%w: the session was erased while it was read", tape.ErrDeleted))
			}
			if tx.err != nil {
				yield(tape.Entry{}, tx.err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
			if newest {
				before = last
			} else {
				after = last
			}
			limit = min(4*max(len(page), 1), pageRows)
		}
	}
}

// listSessions returns a page of the sessions that q selects, the newest entry first, after the session last. q.After and q.Limit are
// ignored.
func (db *DB) listSessions(ctx context.Context, q tape.SessionQuery, last tape.Info, limit int) (page []tape.Info, err error) {
	var where conditions
	if last.Tape != "" {
		date := last.Updated.UnixMicro()
		where.add("updated <= ? AND (updated < ? OR tape > ?)", date, date, last.Tape)
	}
	if q.Workspace != "" {
		where.add("workspace = ?", plainText(q.Workspace))
	}
	owner, rest, found := strings.Cut(q.Prefix, "#")
	if found { // an index has the owners
		where.add("owner = ?", plainText(owner))
	}
	if q.Prefix != "" && (owner == "" || !found || rest != "") {
		where.add("substr(session, 1, "+strconv.Itoa(len([]rune(q.Prefix)))+") = ?", plainText(q.Prefix))
	}
	args := append(where.args, limit)
	return db.reader(ctx).infosOf("SELECT "+sessionColumns+" FROM sessions WHERE parent = ''"+where.sql.String()+
		" ORDER BY updated DESC, tape LIMIT $"+strconv.Itoa(len(args)), args...)
}

// infosOf returns the sessions of a query that returns sessionColumns.
func (tx *Tx) infosOf(query string, args ...any) ([]tape.Info, error) {
	infos := rowsOf(tx, func(read row) tape.Info { return readSession(read).Info }, query, args...)
	return infos, tx.err
}

// plainText replaces what PostgreSQL does not take in a text.
func plainText(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}

func dateOf(microseconds int64) time.Time { return time.UnixMicro(microseconds).UTC() }
