package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/lingserve/lingserve/store/postgres/database"
	"github.com/lingserve/lingserve/tape"
)

// seeds put data into a schema of a version, as the program of that time did, and see after the migration to the next that it is there. Each
// version but the newest has one.
var seeds = map[int]struct {
	sql   string
	check func(*testing.T, *Store)
}{
	1: {
		`
		INSERT INTO tapes (name, listed, session, workspace, title, created, updated, entries, last_id, anchors, anchor_id, anchor_name, anchor_date, bytes)
			VALUES ('aa__bb', true, 's-1', '/srv/agent', 'number 2', '2026-03-01', '2026-03-02', 500, 500, 1, 1, 'start', '2026-03-01', 50000),
				('aa__bb.500-00', false, 's-1', '/srv/agent', 'in a fork', '2026-03-03', '2026-03-03', 1, 501, 0, 0, '', '0001-01-01', 100);
		INSERT INTO entries (tape, id, date, batch, kind, anchor, payload, meta)
			SELECT t.id, i, '2026-03-01', 7, CASE i WHEN 1 THEN 'anchor' ELSE 'message' END, CASE i WHEN 1 THEN 'start' END,
				CASE i WHEN 1 THEN '{"name":"start","state":null}' ELSE '{"role":"user","content":"天气 number ' || i || '"}' END, ''
			FROM tapes t, generate_series(1, 500) i WHERE t.name = 'aa__bb';
		INSERT INTO entries (tape, id, date, kind, payload, meta)
			SELECT id, 501, '2026-03-03', 'message', '{"role":"user","content":"in a fork"}', '{"turn":"t"}' FROM tapes WHERE name = 'aa__bb.500-00';
		INSERT INTO blobs (tape, handle, data) SELECT id, sha256('large'), 'large' FROM tapes WHERE name = 'aa__bb';
		INSERT INTO leases (name, token, expires) VALUES ('aa__bb', 5, now() - interval '1 minute');`,
		func(t *testing.T, s *Store) {
			info, err := s.Info(t.Context(), "aa__bb")
			if err != nil || info.Entries != 500 || info.LastID != 500 || info.LastAnchor.Name != "start" || info.Title != "number 2" {
				t.Errorf("info is %+v, %v", info, err)
			}
			listed, err := collect(s.Sessions(t.Context(), tape.SessionQuery{}))
			if err != nil || len(listed) != 1 || listed[0].Session != "s-1" {
				t.Errorf("sessions are %+v, %v", listed, err)
			}
			if all := mustRead(t, s, "aa__bb", tape.Query{}); len(all) != 500 || all[499].ID != 500 {
				t.Errorf("%d entries", len(all))
			}
			if own := mustRead(t, s, "aa__bb.500-00", tape.Query{}); len(own) != 1 || string(own[0].Meta) != `{"turn":"t"}` {
				t.Errorf("the fork has %v", own)
			}
			sum := "9ff7a1c7a70ae4e6a5ec9dd5c2f2ad9ed56ba51e2bcb8a4ca2e7ed4c1dbbc4a4"
			if err := s.db.Pool.QueryRow(t.Context(), `SELECT encode(sha256('large'), 'hex')`).Scan(&sum); err != nil {
				t.Fatal(err)
			}
			if data, _, err := s.ReadBlob(t.Context(), "aa__bb", sum, 0, 100); string(data) != "large" || err != nil {
				t.Errorf("the blob is %q, %v", data, err)
			}
			// It has no index yet, and gets one when it is searched.
			for _, when := range []string{"without the index", "with it"} {
				if got := ids(mustRead(t, s, "aa__bb", tape.Query{Text: "天气 number 321"})); !slices.Equal(got, []int64{321}) && len(got) != 1 {
					t.Errorf("%s a search finds %v", when, got)
				}
				if _, err := s.Append(t.Context(), "aa__bb", tape.Batch{Entries: []tape.Entry{tape.NewMessage("user", when)}}); err != nil {
					t.Error(err)
				}
				s.indexer.rest()
			}
			if r, err := s.load(t.Context(), "aa__bb"); err != nil || r.indexed < 300 || r.loose != 502-r.indexed {
				t.Errorf("the index goes up to %d, %d follow, %v", r.indexed, r.loose, err)
			}
			if l, err := s.Lease(t.Context(), "aa__bb", false); err != nil {
				t.Error(err)
			} else {
				l.Release()
			}
		},
	},
	2: {
		`
		INSERT INTO tapes (name, listed, session, workspace, title, created, updated, entries, last_id, anchors, anchor_id, anchor_name, anchor_date, bytes)
			SELECT 'aa__' || i, true, 'web:' || i % 2 || '#' || i, '/srv/agent', 'hi', '2026-03-01', timestamptz '2026-03-01' + i * interval '1 second',
				1, 1, 0, 0, '', '0001-01-01', 100 FROM generate_series(1, 9) i;`,
		func(t *testing.T, s *Store) {
			listed, err := collect(s.Sessions(t.Context(), tape.SessionQuery{Workspace: "/srv/agent", Prefix: "web:1#"}))
			if got := fmt.Sprint(names(listed)); err != nil || got != "[aa__9 aa__7 aa__5 aa__3 aa__1]" {
				t.Errorf("sessions are %s, %v", got, err)
			}
		},
	},
	3: {
		`
		INSERT INTO tapes (name, listed, session, workspace, title, created, updated, entries, last_id, anchors, anchor_id, anchor_name, anchor_date, bytes)
			VALUES ('aa__bb', true, 's-1', '/srv/agent', 'hi', '2026-03-01', '2026-03-02', 1, 1, 0, 0, '', '0001-01-01', 100);`,
		func(t *testing.T, s *Store) {
			if info, err := s.Info(t.Context(), "aa__bb"); err != nil || info.Title != "hi" || info.Agent != "" {
				t.Errorf("info is %+v, %v", info, err)
			}
			start := tape.NewEvent("turn.start", nil).With(tape.Meta{Agent: "clerk"})
			if _, err := s.Append(t.Context(), "aa__bb", tape.Batch{Entries: []tape.Entry{start}}); err != nil {
				t.Fatal(err)
			}
			if info, err := s.Info(t.Context(), "aa__bb"); err != nil || info.Agent != "clerk" {
				t.Errorf("info is %+v, %v", info, err)
			}
		},
	},
}

// in connects to a schema.
func in(t *testing.T, schema string) *pgx.Conn {
	t.Helper()
	o := Options{URL: url(t), Schema: schema}
	d := o.database()
	config, err := d.Config()
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

func TestEveryMigrationKeepsWhatTheVersionBeforeHad(t *testing.T) {
	all := database.Migrations(files, "migrations")
	for version := 1; version < len(all); version++ {
		t.Run(fmt.Sprint("from ", version), func(t *testing.T) {
			seed, ok := seeds[version]
			if !ok {
				t.Fatal("there is no data of this version: write some to seeds")
			}
			name := schema(t.Name())
			conn := in(t, name)
			if err := database.Migrate(t.Context(), conn, name, versions, all[:version]); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Exec(t.Context(), seed.sql); err != nil {
				t.Fatal(err)
			}
			// One step, and then what this program does of it.
			if err := database.Migrate(t.Context(), conn, name, versions, all[:version+1]); err != nil {
				t.Fatal(err)
			}
			if at, err := database.VersionOf(t.Context(), conn, name, versions); err != nil || at != version+1 {
				t.Fatalf("it is at version %d, %v", at, err)
			}
			seed.check(t, open(t, Options{Schema: name}))
		})
	}
}

func TestASchemaIsMadeOnceByManyAtOnce(t *testing.T) {
	name := schema(t.Name())
	url(t)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			s, err := Open(t.Context(), Options{URL: url(t), Schema: name, Connections: 2})
			if err != nil {
				t.Error(err)
				return
			}
			_ = s.Close()
		})
	}
	wg.Wait()
	conn := in(t, name)
	var versions int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM migrations`).Scan(&versions); err != nil || versions != len(database.Migrations(files, "migrations")) {
		t.Errorf("%d migrations were made, %v", versions, err)
	}
}

func TestASchemaOfANewerProgramIsLeftAlone(t *testing.T) {
	s := open(t, Options{})
	create(t, s, "a")
	if _, err := s.db.Pool.Exec(t.Context(), `INSERT INTO migrations (version) VALUES (99)`); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Options{URL: url(t), Schema: s.db.Schema})
	if err == nil || !strings.Contains(err.Error(), "has version 99, but this program supports up to") {
		t.Errorf("a newer schema: %v", err)
	}
	if all := mustRead(t, s, "a", tape.Query{}); len(all) != 1 {
		t.Errorf("%d entries are left", len(all))
	}
}

func TestSchemasOfOneDatabaseKnowNothingOfEachOther(t *testing.T) {
	one, two := open(t, Options{Schema: `One "of" 天`}), open(t, Options{Schema: "two"})
	create(t, one, "a", tape.NewMessage("user", "one"))
	if _, err := two.Info(t.Context(), "a"); err == nil {
		t.Error("the tape of another schema is there")
	}
	create(t, two, "a")
	if err := two.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	l, err := one.Lease(t.Context(), "a", false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	if l, err := two.Lease(t.Context(), "a", false); err != nil {
		t.Error(err)
	} else {
		l.Release()
	}
	if all := mustRead(t, one, "a", tape.Query{}); len(all) != 2 {
		t.Errorf("%d entries are left", len(all))
	}
}

func TestWhatADatabaseCannotDoIsSaidAtTheStart(t *testing.T) {
	admin := in(t, "public")
	for _, sql := range []string{
		`CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`,
		`CREATE ROLE powerless LOGIN`,
		`REVOKE CREATE ON DATABASE postgres FROM PUBLIC`,
		`CREATE SCHEMA given`, `GRANT USAGE ON SCHEMA given TO powerless`,
		`CREATE SCHEMA owned AUTHORIZATION powerless`,
		`ALTER ROLE powerless SET default_transaction_read_only = on`, `ALTER ROLE powerless SET default_transaction_isolation = serializable`,
	} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	as := strings.Replace(url(t), "lingserve@", "powerless:s3cretword@", 1)
	for name, tt := range map[string]struct{ url, schema, want string }{
		"another encoding":         {strings.Replace(url(t), "/postgres?", "/latin?", 1), "x", "its encoding is LATIN1; expected UTF8"},
		"no such database":         {strings.Replace(url(t), "/postgres?", "/nowhere?", 1), "x", "the database does not exist (SQLSTATE 3D000)"},
		"no such user":             {strings.Replace(url(t), "lingserve@", "nobody:s3cretword@", 1), "x", "it refused the user or the password (SQLSTATE 28000)"},
		"a schema cannot be made":  {as, "x", "the database user has no permission to make the schema x"},
		"a schema of another":      {as, "given", "the database user has no permission to make tables in the schema given"},
		"one of the user's own":    {as, "owned", ""},
		"no schema has that name":  {url(t), strings.Repeat("x", 64), "expected 1–63 bytes"},
		"what is no address":       {"postgres://u:s3cretword@h:port/", "x", "invalid address; expected one such as postgres://"},
		"a file that is not there": {"postgres://u:s3cretword@h/x?sslmode=verify-full&sslrootcert=/not/there.pem", "x", "cannot read a file of its address: open /not/there.pem: no such file"},
		"an address in words":      {strings.NewReplacer("postgres://lingserve@/postgres?host=", "user=lingserve dbname=postgres host=").Replace(url(t)), "words", ""},
		"times of the user's own":  {url(t) + "&statement_timeout=60000", "times", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), Options{URL: tt.url, Schema: tt.schema})
			if err == nil {
				defer s.Close()
				create(t, s, "a")
				if _, err := s.Append(t.Context(), "a", tape.Batch{Entries: []tape.Entry{tape.NewMessage("user", "hi")}}); err != nil {
					t.Error(err)
				}
				_ = s.Delete(t.Context(), "a")
			}
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cretword") {
				t.Errorf("the password is in it: %v", err)
			}
		})
	}
}
