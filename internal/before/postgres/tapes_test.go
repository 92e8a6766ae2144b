package postgres

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store/postgres"
	"github.com/lingserve/lingserve/store/postgres/database"
	"github.com/lingserve/lingserve/tape"
)

func unzip(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// in connects to a schema.
func in(t *testing.T, schema string) *pgx.Conn {
	t.Helper()
	need(t)
	o := database.Options{URL: server.URL(), Schema: schema}
	config, err := o.Config()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config.ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// fill fills a schema with the rows that version 8a17c0c has written.
func fill(t *testing.T, schema string) {
	t.Helper()
	conn := in(t, schema)
	if err := database.Migrate(t.Context(), conn, schema, "migrations", database.Migrations(files, "migrations")); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `DELETE FROM migrations`); err != nil {
		t.Fatal(err)
	}
	sql := strings.ReplaceAll(unzip(t, "tapes.sql.gz"), "lingserve.", schema+".")
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// old is a tape as version 8a17c0c reads it.
type old struct {
	name, info string
	entries    []string
}

func oldTapes(t *testing.T) (all []old) {
	t.Helper()
	for line := range strings.Lines(unzip(t, "tapes.jsonl.gz")) {
		line = strings.TrimSuffix(line, "\n")
		if info, err := strconv.Unquote(line); err == nil {
			name := strings.Fields(strings.TrimPrefix(info, "{Tape:"))[0]
			all = append(all, old{name: name, info: info})
			continue
		}
		last := &all[len(all)-1]
		last.entries = append(last.entries, line)
	}
	if len(all) < 15 {
		t.Fatalf("%d tapes", len(all))
	}
	return all
}

// check compares a tape with what the earlier version has read.
func check(t *testing.T, s *tapes, want old) {
	t.Helper()
	info, err := s.Info(t.Context(), want.name)
	if err != nil {
		t.Fatal(err)
	}
	info.Bytes = 0 // they are counted otherwise
	if diff := cmp.Diff(want.info, fmt.Sprintf("%+v", info)); diff != "" {
		t.Errorf("%s (-before +now):\n%s", want.name, diff)
	}
	var got []string
	for _, e := range mustRead(t, s, want.name, tape.Query{}) {
		got = append(got, string(e.AppendJSON(nil)))
	}
	if diff := cmp.Diff(want.entries, got); diff != "" {
		t.Errorf("%s (-before +now):\n%s", want.name, diff)
	}
}

// left returns how many tapes are in the old tables; -1: the tables are gone.
func left(t *testing.T, s *tapes) (n int) {
	t.Helper()
	there := false
	err := s.before.do(t.Context(), func(ctx context.Context, conn *pgx.Conn) (err error) {
		if there, err = s.before.exists(ctx, conn); err != nil || !there {
			return err
		}
		return conn.QueryRow(ctx, `SELECT count(*) FROM `+s.before.schema+`tapes`).Scan(&n)
	})
	if err != nil {
		t.Fatal(err)
	}
	if !there {
		return -1
	}
	return n
}

func blobs(t *testing.T, s *tapes) {
	t.Helper()
	large := make([]byte, 700_000)
	for i := range large {
		large[i] = byte(i / 1000)
	}
	for handle, want := range map[string][]byte{
		"5570a3cf02207f1d352d2cfea385be4bc0b2b9414f606baa6f55db60b232f221": []byte("a blob"),
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855": {},
		"1297813b298fbd78cd1953bc48c8fff4e323e074fc2dfe5253ca2ba09962ce48": large,
	} {
		if data, size, err := s.ReadBlob(t.Context(), "ws__s04", handle, 0, 1<<20); err != nil || int(size) != len(want) || !bytes.Equal(data, want) {
			t.Errorf("blob %s: %d of %d bytes, %v", handle, len(data), size, err)
		}
	}
}

// TestTapesOfAnEarlierVersion reads what version 8a17c0c has written, with nothing moved before, and again when all was moved.
func TestTapesOfAnEarlierVersion(t *testing.T) {
	for name, background := range map[string]bool{"at first use": false, "in the background": true} {
		t.Run(name, func(t *testing.T) {
			schema := schemaOf(t.Name() + rand.Text())
			fill(t, schema)
			s := open(t, postgres.Options{Schema: schema})
			if !background {
				s.before.stop() // the background comes to nothing more
				s.before.running.Wait()
			}
			want := oldTapes(t)
			list := func() {
				t.Helper()
				var names, wanted []string
				for i, err := range s.Sessions(t.Context(), tape.SessionQuery{}) {
					if err != nil {
						t.Fatal(err)
					}
					names = append(names, i.Tape)
				}
				for _, w := range want {
					if !tape.IsFork(w.name) {
						wanted = append(wanted, w.name)
					}
				}
				if diff := cmp.Diff(wanted, names); diff != "" {
					t.Errorf("sessions (-before +now):\n%s", diff)
				}
				page, err := collect(s.Sessions(t.Context(), tape.SessionQuery{Workspace: "/srv/agent", Prefix: "web:ada#", Limit: 3}))
				if err != nil || len(page) != 3 || page[0].Tape != "ws__s09" || page[2].Tape != "ws__s03" {
					t.Errorf("a page of an owner: %+v, %v", page, err)
				}
				rest, err := collect(s.Sessions(t.Context(), tape.SessionQuery{Prefix: "web:ada#", After: page[2].Cursor()}))
				if err != nil || len(rest) != 1 || rest[0].Tape != "ws__s00" {
					t.Errorf("the rest of an owner: %+v, %v", rest, err)
				}
				if n, err := s.Count(t.Context()); err != nil || n != len(wanted) {
					t.Errorf("%d sessions, %v, want %d", n, err, len(wanted))
				}
			}
			list()
			for i, w := range want {
				check(t, s, w)
				if i%5 == 0 {
					list()
				}
			}
			blobs(t, s)
			if !background {
				if n := left(t, s); n != 1 { // the import that was left behind
					t.Errorf("%d tapes are left in the old tables", n)
				}
				s = open(t, postgres.Options{Schema: schema})
			}
			s.before.running.Wait()
			if n := left(t, s); n != -1 {
				t.Fatalf("%d tapes are left in the old tables", n)
			}
			list()
			for _, w := range want {
				check(t, s, w)
			}
			blobs(t, s)
			if got := mustRead(t, s, "ws__long", tape.Query{Text: "紫水晶heliotrope"}); len(got) != 1 {
				t.Errorf("a search finds %d entries", len(got))
			}
			// They go on as others do.
			for _, name := range []string{"ws__s00", "ws__s03.5-ab", "ws__long"} {
				before, err := s.Info(t.Context(), name)
				if err != nil {
					t.Fatal(err)
				}
				if first, err := s.Append(t.Context(), name, tape.Batch{Entries: []tape.Entry{tape.NewMessage("user", "more")}}); err != nil || first != before.LastID+1 {
					t.Errorf("%s: %d, %v, want %d", name, first, err, before.LastID+1)
				}
			}
			if err := s.Delete(t.Context(), "ws__s03"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Info(t.Context(), "ws__s03.5-ab.6-cd"); err == nil {
				t.Error("a fork outlives its session")
			}
		})
	}
}

// TestManyServersMoveATapeOnce uses the tapes of an earlier version in several processes at once.
func TestManyServersMoveATapeOnce(t *testing.T) {
	schema := schemaOf(t.Name() + rand.Text())
	fill(t, schema)
	all := []*tapes{open(t, postgres.Options{Schema: schema}), open(t, postgres.Options{Schema: schema}), open(t, postgres.Options{Schema: schema})}
	want := oldTapes(t)
	done := make(chan struct{})
	for i, s := range all {
		go func() {
			defer func() { done <- struct{}{} }()
			for k := range want {
				w := want[(k+5*i)%len(want)]
				if n := len(mustRead(t, s, w.name, tape.Query{})); n != len(w.entries) {
					t.Errorf("%s has %d entries, want %d", w.name, n, len(w.entries))
				}
			}
		}()
	}
	for range all {
		<-done
	}
	for _, s := range all {
		s.before.running.Wait()
	}
	for _, w := range want {
		check(t, all[0], w)
	}
	if n := left(t, all[0]); n != -1 {
		t.Errorf("%d tapes are left in the old tables", n)
	}
}

// Every earlier version of the tables is brought to the last one first.
func TestEveryVersionOfTheTables(t *testing.T) {
	all := database.Migrations(files, "migrations")
	for version := 1; version <= len(all); version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			schema := schemaOf(t.Name() + rand.Text())
			conn := in(t, schema)
			if err := database.Migrate(t.Context(), conn, schema, "migrations", all[:version]); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Exec(t.Context(), `
				INSERT INTO tapes (name, listed, session, workspace, title, created, updated, entries, last_id, anchors, anchor_id, anchor_name, anchor_date, bytes)
					VALUES ('aa__bb', true, 's-1', '/srv/agent', 'number 2', '2026-03-01', '2026-03-02', 500, 500, 1, 1, 'start', '2026-03-01', 50000);
				INSERT INTO entries (tape, id, date, batch, kind, anchor, payload, meta)
					SELECT t.id, i, '2026-03-01', 7, CASE i WHEN 1 THEN 'anchor' ELSE 'message' END, CASE i WHEN 1 THEN 'start' END,
						CASE i WHEN 1 THEN '{"name":"start","state":null}' ELSE '{"role":"user","content":"天气 number ' || i || '"}' END, ''
					FROM tapes t, generate_series(1, 500) i`); err != nil {
				t.Fatal(err)
			}
			s := open(t, postgres.Options{Schema: schema})
			info, err := s.Info(t.Context(), "aa__bb")
			if err != nil || info.Entries != 500 || info.LastID != 500 || info.LastAnchor.Name != "start" || info.Title != "number 2" {
				t.Errorf("info is %+v, %v", info, err)
			}
			found := mustRead(t, s, "aa__bb", tape.Query{Text: "天气 number 321"})
			var p struct{ Content string }
			if len(found) != 1 || json.Unmarshal(found[0].Payload, &p) != nil || p.Content != "天气 number 321" {
				t.Errorf("found %v", found)
			}
			l, err := s.Lease(t.Context(), "aa__bb", false)
			if err != nil {
				t.Fatal(err)
			}
			l.Release()
		})
	}
}

// A process that starts while another one drops the tables does not make them again.
func TestTablesThatWereDroppedAreNotMadeAgain(t *testing.T) {
	schema := schemaOf(t.Name() + rand.Text())
	conn := in(t, schema)
	if err := database.Upgrade(t.Context(), conn, schema, "migrations", database.Migrations(files, "migrations")); err != nil {
		t.Fatal(err)
	}
	var tables int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = $1`, schema).Scan(&tables); err != nil || tables != 0 {
		t.Errorf("%d tables were made, %v", tables, err)
	}
}
