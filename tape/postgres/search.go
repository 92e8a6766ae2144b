package postgres

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store/postgres/database"
	"github.com/lingserve/lingserve/tape"
)

// What searches look into first are blocks of entries. A block has a row with its grams: all that is in the text of its entries, as
// searches compare it, three characters at a time, or two in the scripts of East Asia, and at the end of a word what is left. So a word
// is in no block that does not have all its grams; one that is too short for a gram is in none that has no gram that begins with it. The
// grams are the lexemes of a tsvector: its GIN index finds words and beginnings of words, in any script and under any locale. The tape is
// a gram, too, so that a search costs what there is in it and not what there is in all.
//
// A block begins with an entry that begins a step, and ends before one: what a search is given of a tape are whole steps.

const (
	blockMost  = 64        // entries of a block, beyond which it ends with its step
	blockText  = 16 << 10  // bytes of text, likewise
	gramsText  = 256 << 10 // bytes of text, beyond which anything may be in the block
	looseMost  = 2 * blockMost
	headMost   = 512  // entries that a search looks at by itself, the newest ones mostly: what is sought is often there
	wordsMost  = 48   // grams of a query; more find nothing better
	rangesMost = 12   // blocks whose entries are read with one statement: a chunk, mostly
	blocksMost = 2000 // that a search knows of at once
)

// gram is up to three characters of 21 bits each.
type gram uint64

func (g gram) String() string {
	var b []byte
	for shift := 42; shift >= 0; shift -= 21 {
		if r := rune(g >> shift & (1<<21 - 1)); r != 0 {
			b = utf8.AppendRune(b, r)
		}
	}
	return string(b)
}

func gramOf(runes []rune) (g gram) {
	for i := range 3 {
		g <<= 21
		if i < len(runes) {
			g |= gram(runes[i])
		}
	}
	return g
}

// wide is the first of the characters of East Asia. Of them there are so many that two say what three others do, and three would be
// mostly seen once; and one is a word that is worth looking for.
const wide = 0x2e80

// lengthOf is how many characters a gram has that begins with this one.
func lengthOf(r rune) int {
	if r >= wide {
		return 2
	}
	return 3
}

// addGrams adds the grams of a text. Nothing that has white space or NUL in it is sought.
func addGrams(set map[gram]struct{}, text string) {
	var window [3]rune
	n := 0
	add := func() { // the gram that begins with the first
		set[gramOf(window[:min(n, lengthOf(window[0]))])] = struct{}{}
		window[0], window[1] = window[1], window[2]
		n--
	}
	for _, r := range text {
		if r == 0 || unicode.IsSpace(r) {
			for n > 0 { // what is left at the end of a word
				add()
			}
			continue
		}
		window[n] = r
		if n++; n == 3 {
			add()
		}
	}
	for n > 0 {
		add()
	}
}

// tapeGram is the gram of all blocks of a tape. A text can have it, too; that does no harm.
func tapeGram(tape int64) string { return "\x01" + strconv.FormatInt(tape, 10) }

// gramQuery is the tsquery of blocks of a tape that may have all of these words; "" where that says nothing.
func gramQuery(tape int64, words []string) string {
	var parts []string
	add := func(text, end string) {
		text = strings.ReplaceAll(strings.ReplaceAll(text, `\`, `\\`), `'`, `''`)
		part := "'" + text + "'" + end
		if strings.IndexByte(text, 0) < 0 && len(parts) < wordsMost && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	for _, word := range words {
		runes := []rune(word)
		whole := false
		for i, r := range runes {
			if end := i + lengthOf(r); end <= len(runes) {
				add(string(runes[i:end]), "")
				whole = true
			}
		}
		if !whole && (len(runes) > 1 || runes[0] >= wide) {
			add(word, ":*")
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(append(parts, "'"+tapeGram(tape)+"'"), " & ")
}

// stretch is a range of ids, the ends included.
type stretch struct{ first, last int64 }

// search yields the entries with after < id < before that may have the words of the query, in whole steps.
func (src *source) search(after, before int64, newest bool) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		query := gramQuery(src.row.id, src.words)
		if src.row.loose >= 4*looseMost {
			src.s.indexer.add(src.row.id) // of a tape that was there before the index was, or after a crash
		}
		if query == "" || src.row.indexed == 0 {
			src.span(after, before, newest, chunkMost)(yield)
			return
		}
		ok := true
		pass := func(entries iter.Seq2[tape.Entry, error]) {
			for e, err := range entries {
				if ok = yield(e, err) && err == nil; !ok {
					return
				}
			}
		}
		cut := src.row.indexed + 1 // what follows is in no block
		if newest {
			var err error
			if cut, err = src.head(before, cut); err != nil {
				yield(tape.Entry{}, err)
				return
			}
			pass(src.span(max(after, cut-1), before, true, chunkMost))
		}
		if ok {
			pass(src.candidates(query, after, min(before, cut), newest))
		}
		if ok && !newest {
			pass(src.span(max(after, cut-1), before, false, chunkMost))
		}
	}
}

// head is the id from which on the newest entries are looked at without the index: the beginning of a block, or what no block has.
func (src *source) head(before, loose int64) (cut int64, err error) {
	at := before - headMost
	if at >= loose {
		return loose, nil
	}
	err = src.s.do(src.ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, `SELECT coalesce(max(first), 0) FROM blocks WHERE tape = $1 AND first <= $2`, src.row.id, at).Scan(&cut)
	})
	return cut, err
}

// candidates yields the entries of blocks that may have the words.
func (src *source) candidates(query string, after, before int64, newest bool) iter.Seq2[tape.Entry, error] {
	return func(yield func(tape.Entry, error) bool) {
		for before-after >= 2 {
			blocks, err := src.blocks(query, after, before, newest)
			for len(blocks) > 0 && err == nil {
				n := min(len(blocks), rangesMost)
				for e, err := range src.ranges(blocks[:n], after, before, newest) {
					if !yield(e, err) || err != nil {
						return
					}
				}
				if newest {
					before = blocks[n-1].first
				} else {
					after = blocks[n-1].last
				}
				blocks = blocks[n:]
			}
			if err != nil {
				yield(tape.Entry{}, err)
				return
			}
			if !src.more {
				return
			}
		}
	}
}

// blocks are the next ones that may have the words and have entries between these ids; src.more says whether there are others.
func (src *source) blocks(query string, after, before int64, newest bool) (blocks []stretch, err error) {
	order := "ASC"
	if newest {
		order = "DESC"
	}
	// Each of the two is found by an index, which the planner might not use for both at once.
	sql := `WITH hits AS MATERIALIZED (
			SELECT tape, first, last FROM blocks WHERE grams @@ $1::text::tsquery
		) SELECT found.first, found.last FROM tapes t LEFT JOIN (
			SELECT first, last FROM hits WHERE tape = $2 AND last > $3 AND first < $4
			UNION SELECT first, last FROM blocks WHERE tape = $2 AND grams IS NULL AND last > $3 AND first < $4
		) found ON true WHERE t.id = $2 ORDER BY found.first ` + order + ` LIMIT ` + strconv.Itoa(blocksMost)
	err = src.s.do(src.ctx, func(ctx context.Context, conn *pgx.Conn) error {
		blocks = blocks[:0]
		// The planner takes the table for a small one: it does not count what is stored beside it, and would read all of that.
		var b pgx.Batch
		b.Queue(`BEGIN READ ONLY`)
		b.Queue(`SET LOCAL enable_seqscan = off`)
		b.Queue(sql, query, src.row.id, after, before)
		b.Queue(`COMMIT`)
		answers := conn.SendBatch(ctx, &b)
		defer answers.Close()
		for range 2 {
			if _, err := answers.Exec(); err != nil {
				return err
			}
		}
		rows, err := answers.Query()
		if err != nil {
			return err
		}
		defer rows.Close()
		there := false
		for rows.Next() {
			there = true
			if rows.RawValues()[0] == nil { // there is the tape and no such block
				continue
			}
			var b stretch
			if err := rows.Scan(&b.first, &b.last); err != nil {
				return err
			}
			blocks = append(blocks, b)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		return erasedUnless(there)
	})
	src.more = len(blocks) == blocksMost
	return blocks, err
}

// ranges yields the entries of blocks that are in order, between the ids.
func (src *source) ranges(blocks []stretch, after, before int64, newest bool) iter.Seq2[tape.Entry, error] {
	order := "ASC"
	if newest {
		order = "DESC"
	}
	// The limits tell the planner to go by the index for each of the blocks. The outer one cuts where an inner one does, or before.
	limit := ` ORDER BY id ` + order + ` LIMIT ` + strconv.Itoa(chunkMost)
	sql := `SELECT e.id, e.kind, e.payload, e.meta, e.date FROM tapes t LEFT JOIN LATERAL (
			SELECT * FROM (
				SELECT x.*, sum(octet_length(payload)::bigint + octet_length(meta)) OVER (ORDER BY id ` + order + ` ROWS UNBOUNDED PRECEDING)
						- octet_length(payload) - octet_length(meta) AS ahead
				FROM unnest($2::bigint[], $3::bigint[]) AS r (first, last) CROSS JOIN LATERAL (
					SELECT id, kind, payload, meta, date FROM entries
					WHERE tape = $1 AND id >= greatest(r.first, $4 + 1) AND id <= least(r.last, $5 - 1)` + limit + `
				) x` + limit + `
			) part WHERE ahead < ` + strconv.Itoa(chunkBytes) + `
		) e ON true WHERE t.id = $1 ORDER BY e.id ` + order
	firsts, lasts := make([]int64, len(blocks)), make([]int64, len(blocks))
	for i, b := range blocks {
		firsts[i], lasts[i] = b.first, b.last
	}
	return func(yield func(tape.Entry, error) bool) {
		var chunk []tape.Entry
		for {
			var size int
			var err error
			if chunk, size, err = src.fetch(chunk[:0], sql, []any{src.row.id, firsts, lasts, after, before}); err != nil {
				yield(tape.Entry{}, err)
				return
			}
			for i := range chunk {
				e := chunk[i]
				chunk[i] = tape.Entry{}
				if newest {
					before = e.ID
				} else {
					after = e.ID
				}
				if !yield(e, nil) {
					return
				}
			}
			if size < chunkBytes && len(chunk) < chunkMost {
				return
			}
		}
	}
}

// block is one that is being made.
type block struct {
	stretch
	entries int64
	text    int
	grams   map[gram]struct{}
}

// cover makes blocks of what no block of a tape has, up to the last step.
func (s *Store) cover(ctx context.Context, id int64) error {
	for {
		var r row
		err := s.do(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
			r, err = scanRow(conn.QueryRow(ctx, `SELECT `+rowColumns+` FROM tapes WHERE id = $1`, id))
			return err
		})
		if err != nil {
			return err // also that it was erased
		}
		done, err := s.coverSome(ctx, r)
		if err != nil || done {
			return err
		}
	}
}

// coverSome makes some blocks more; done says that there are no others to make, or that somebody else makes them.
func (s *Store) coverSome(ctx context.Context, r row) (done bool, err error) {
	const some = 128 // blocks at once
	src := s.source(ctx, r, tape.Query{})
	var folder tape.Folder
	var ready []block
	var now block
	done = true
	for e, err := range src.span(r.indexed, r.info.LastID+1, false, chunkMost) {
		if err != nil {
			return false, err
		}
		if now.entries > 0 && tape.BeginsStep(e) && (now.entries >= blockMost || now.text >= blockText) {
			ready = append(ready, now)
			now = block{}
			if len(ready) == some {
				done = false
				break
			}
		}
		if now.entries == 0 {
			now.first, now.grams = e.ID, map[gram]struct{}{}
		}
		now.entries++
		now.last = e.ID
		text := folder.Text(e)
		if now.text += len(text); now.text <= gramsText {
			addGrams(now.grams, text)
		} else {
			now.grams = nil
		}
	}
	if len(ready) == 0 {
		return true, nil
	}
	taken := false
	err = s.do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
		var b pgx.Batch
		covered := int64(0)
		for _, x := range ready {
			covered += x.entries
			var grams []string
			if x.grams != nil {
				grams = make([]string, 0, len(x.grams)+1)
				for g := range x.grams {
					grams = append(grams, g.String())
				}
				grams = append(grams, tapeGram(r.id))
			}
			b.Queue(`INSERT INTO blocks (tape, first, last, grams) VALUES ($1, $2, $3, array_to_tsvector($4::text[]))`, r.id, x.first, x.last, grams)
		}
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		// The row is locked for this moment only, and an append does not wait for the index.
		tag, err := tx.Exec(ctx, `UPDATE tapes SET indexed = $3, loose = loose - $4 WHERE id = $1 AND indexed = $2`, r.id, r.indexed, ready[len(ready)-1].last, covered)
		if err != nil {
			return err
		}
		if taken = tag.RowsAffected() == 0; taken {
			return nil
		}
		return tx.Commit(ctx)
	})
	if database.Duplicate(err) { // by another server, or by a try whose answer was lost
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("index of searches: %w", err)
	}
	return done || taken, nil
}
