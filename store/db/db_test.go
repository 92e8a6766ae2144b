package db

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/tapetest"
)

// sharedTapes are the tapes of a database that the test process has open once for each folder.
type sharedTapes struct {
	*Tapes
	dir  string
	once sync.Once
}

var shared = struct {
	sync.Mutex
	users map[string]int
	dbs   map[string]*DB
}{users: map[string]int{}, dbs: map[string]*DB{}}

func openShared(dir string) (tape.Store, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.dbs[dir] == nil {
		db, err := Open(context.Background(), "sqlite:"+filepath.Join(dir, "test.db"), nil)
		if err != nil {
			return nil, err
		}
		shared.dbs[dir] = db
	}
	shared.users[dir]++
	return &sharedTapes{Tapes: shared.dbs[dir].Tapes(nil), dir: dir}, nil
}

func (s *sharedTapes) Close() error {
	err := s.Tapes.Close()
	s.once.Do(func() {
		shared.Lock()
		defer shared.Unlock()
		if shared.users[s.dir]--; shared.users[s.dir] == 0 {
			err = errors.Join(err, shared.dbs[s.dir].Close())
			delete(shared.dbs, s.dir)
		}
	})
	return err
}

var factory = tapetest.Factory{Open: openShared, Durable: true, Exclusive: true}

// childFactory makes the stores of child processes.
var childFactory = factory

const envOpen = "DB_TEST_OPEN" // the file that a child process opens and keeps open until its input ends

func TestMain(m *testing.M) {
	if path := os.Getenv(envOpen); path != "" {
		keepOpen(path)
		return
	}
	longtest.Checks(20, 100)
	tapetest.Main(m, childFactory)
}

func keepOpen(path string) {
	if _, err := Open(context.Background(), "sqlite:"+path, nil); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("open")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

func TestSQLite(t *testing.T) { tapetest.Run(t, factory) }

func TestMemory(t *testing.T) {
	tapetest.Run(t, tapetest.Factory{Open: func(string) (tape.Store, error) {
		db, err := Open(context.Background(), "memory", nil)
		if err != nil {
			return nil, err
		}
		return &ownTapes{db.Tapes(nil)}, nil
	}})
}

// ownTapes close their database.
type ownTapes struct{ *Tapes }

func (s *ownTapes) Close() error { return errors.Join(s.Tapes.Close(), s.db.Close()) }

// open opens a database that is closed when the test ends.
func open(t testing.TB, path string, o *Options) *DB {
	t.Helper()
	db, err := Open(t.Context(), "sqlite:"+path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func create(t testing.TB, s tape.Store, name string, texts ...string) {
	t.Helper()
	b := tape.Batch{Create: true, Entries: []tape.Entry{tape.NewAnchor("start", nil)}}
	for _, text := range texts {
		b.Entries = append(b.Entries, tape.NewMessage("user", text))
	}
	if _, err := s.Append(t.Context(), name, b); err != nil {
		t.Fatal(err)
	}
}

func say(texts ...string) (b tape.Batch) {
	for _, text := range texts {
		b.Entries = append(b.Entries, tape.NewMessage("user", text))
	}
	return b
}

// ST-04
func TestSecondOpenIsRefusedWithTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b%20?#.db")
	refused := func(pid int) {
		t.Helper()
		_, err := Open(t.Context(), "sqlite:"+path, nil)
		if !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), fmt.Sprintf("another server uses it (process %d)", pid)) {
			t.Errorf("a second Open: %v", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), envOpen+"="+path)
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "open\n" || err != nil {
		t.Fatalf("the child says %q, %v", line, err)
	}
	refused(child.Process.Pid)
	_ = in.Close()
	if err := child.Wait(); err != nil { // it ends without closing the database
		t.Fatal(err)
	}
	open(t, path, nil)
	refused(os.Getpid())
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// ST-02
func TestSchemaThatIsTooNewIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	change := func(query string, args ...any) {
		t.Helper()
		db := open(t, path, nil)
		err := db.Update(t.Context(), func(tx *Tx) { tx.exec(query, args...) })
		if err = errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	change("UPDATE schema_version SET version = 99, compatible = 1")
	change("UPDATE schema_version SET compatible = 98") // this program can use the version above
	_, err := Open(t.Context(), "sqlite:"+path, nil)
	if want := "the database has schema 99, and this program knows only"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Open: %v, want %q", err, want)
	}
}

func TestURLThatNamesNoDatabaseIsRefused(t *testing.T) {
	for _, url := range []string{"", "sqlite:", "mysql://user:s3cret@host/db", "data.db", "postgres://user:s3cret@host:port/db"} {
		_, err := Open(t.Context(), url, nil)
		if !errors.Is(err, store.ErrInvalid) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// ST-10
func TestErasedTextIsInNoFile(t *testing.T) {
	dir := t.TempDir()
	db := open(t, filepath.Join(dir, "test.db"), nil)
	s := db.Tapes(nil)
	const secret = "ZebraQuagga"
	words := make([]string, 300)
	for i := range words {
		words[i] = fmt.Sprint(secret, i, strings.Repeat(" and more", i))
	}
	create(t, s, "a", words...)
	create(t, s, "b", "what stays")
	if _, err := s.PutBlob(t.Context(), "a", []byte(strings.Repeat(secret, 100_000))); err != nil {
		t.Fatal(err)
	}
	files := func() (with []string) {
		names, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(data), secret) {
				with = append(with, name)
			}
		}
		return with
	}
	if len(files()) == 0 {
		t.Fatal("the text is in no file before it is erased")
	}
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if with := files(); len(with) > 0 {
		t.Errorf("the erased text is in %v", with)
	}
	if rows := countRows(t, db, "entries WHERE tape <> 'b'") + countRows(t, db, "blobs") + countRows(t, db, "removals"); rows != 0 {
		t.Errorf("%d rows of erased tapes", rows)
	}
}

// ST-06, ST-08
func TestInterruptedImportAndErasureAreFinishedByTheNextOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	now := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	o := &Options{Clock: func() time.Time { return now }}
	db := open(t, path, o)
	create(t, db.Tapes(nil), "erased", "text")
	err := db.Update(t.Context(), func(tx *Tx) {
		tx.erase("erased")
		tx.insertEntries(incarnation{"imported", 7}, []entryRow{{id: 1}})
		tx.scheduleRemoval(incarnation{"imported", 7}, now.Add(importTime))
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 0} {
		db := open(t, path, o)
		rows := countRows(t, db, "entries")
		if err := db.Close(); err != nil || rows != want {
			t.Errorf("%d entries, %v, want %d", rows, err, want)
		}
		now = now.Add(2 * importTime)
	}
}

// TA-40
func TestImportIsInvisibleUntilItsEnd(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	s := db.Tapes(nil)
	const n = 3*importRows + 1
	count := 0
	err := s.Import(t.Context(), "a", "web:me#1", "/w", func(yield func(tape.Entry, error) bool) {
		for i := range int64(n) {
			if _, err := s.Info(t.Context(), "a"); !errors.Is(err, tape.ErrNotFound) {
				t.Fatalf("before entry %d: %v", i+1, err)
			}
			e := tape.NewMessage("user", "text")
			if e.ID = 2*i + 1; !yield(e, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range s.Read(t.Context(), "a", tape.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		count++
	}
	in, err := s.Info(t.Context(), "a")
	if err != nil || count != n || in.Entries != n || in.LastID != 2*n-1 || in.Session != "web:me#1" {
		t.Errorf("%d entries, %+v, %v", count, in, err)
	}
}

// ST-07
func TestFullDiskRefusesWritesUntilThereIsSpace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path, &Options{maxPages: 100})
	s := db.Tapes(nil)
	create(t, s, "a")
	create(t, s, "b")
	long := strings.Repeat("x", 20_000)
	create(t, s, "c", long)
	n := int64(1)
	for {
		first, err := s.Append(t.Context(), "a", say(long, "short"))
		if err == nil {
			if n += 2; first != n-1 || n > 1000 {
				t.Fatalf("append %d has id %d", n, first)
			}
			continue
		}
		var coded interface{ ErrorCode() string }
		if !errors.Is(err, store.ErrFull) || !errors.As(err, &coded) || coded.ErrorCode() != "overloaded" || tape.Refused(err) {
			t.Fatalf("on a full disk: %v", err)
		}
		break
	}
	if in, err := s.Info(t.Context(), "a"); err != nil || in.Entries != n {
		t.Errorf("after the refusal: %+v, %v, want %d entries", in, err, n)
	}
	if err := s.Delete(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	// Of writes that share a commit, those that fit succeed.
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			b := say("small")
			if i%2 == 1 {
				b = say(strings.Repeat(long, 10))
			}
			_, errs[i] = s.Append(t.Context(), "b", b)
		})
	}
	wg.Wait()
	for i, err := range errs {
		if i%2 == 1 && !errors.Is(err, store.ErrFull) || i%2 == 0 && err != nil {
			t.Errorf("write %d: %v", i, err)
		}
	}
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), "b", say(long)); err != nil {
		t.Errorf("when there is space: %v", err)
	}
}

// ST-05
func TestWaitingWritesShareACommitAndFailAlone(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	s := db.Tapes(nil)
	create(t, s, "a")
	refusal := errors.New("no")
	canceled, cancel := context.WithCancelCause(t.Context())
	entered, leave := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := db.Update(t.Context(), func(*Tx) { close(entered); <-leave }); err != nil {
			t.Error(err)
		}
	})
	<-entered
	const n = 30
	errs := make([]error, n)
	for i := range n {
		ctx := t.Context()
		if i%3 == 2 {
			ctx = canceled
		}
		wg.Go(func() {
			errs[i] = db.Update(ctx, func(tx *Tx) {
				b := say(fmt.Sprint(i))
				tx.append("a", b, b.Entries, 0)
				if i%3 == 1 {
					tx.fail(refusal)
				}
			})
		})
	}
	longtest.Wait(t, "the writes wait", func() bool {
		db.mu.Lock()
		defer db.mu.Unlock()
		return len(db.queue) == n
	})
	cancel(refusal)
	close(leave)
	wg.Wait()
	for i, err := range errs {
		if want := map[bool]error{false: refusal, true: nil}[i%3 == 0]; !errors.Is(err, want) {
			t.Errorf("write %d: %v, want %v", i, err, want)
		}
	}
	if in, err := s.Info(t.Context(), "a"); err != nil || in.Entries != 1+n/3 {
		t.Errorf("%+v, %v, want %d entries", in, err, 1+n/3)
	}
}

// ST-05: a write that refuses before it has written anything costs the others of its commit nothing.
func TestARefusalDoesNotRunOtherWritesAgain(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	entered, leave := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		must(t, db.Update(t.Context(), func(*Tx) { close(entered); <-leave }))
	})
	<-entered
	const n = 30
	var calls [n]int
	var errs [n]error
	for i := range n {
		wg.Go(func() {
			errs[i] = db.Update(t.Context(), func(tx *Tx) {
				calls[i]++
				if i%3 == 1 && !tx.exists("SELECT 1 FROM sessions WHERE tape = $1", "nowhere") {
					tx.fail(tape.ErrNotFound)
				}
				tx.exec("INSERT INTO tickets (key, value, expires, updated) VALUES ($1, '', 1, 1)", fmt.Sprint(i))
			})
		})
	}
	longtest.Wait(t, "the writes wait", func() bool {
		db.mu.Lock()
		defer db.mu.Unlock()
		return len(db.queue) == n
	})
	close(leave)
	wg.Wait()
	for i, err := range errs {
		if calls[i] != 1 || errors.Is(err, tape.ErrNotFound) != (i%3 == 1) || i%3 != 1 && err != nil {
			t.Errorf("write %d was called %d times: %v", i, calls[i], err)
		}
	}
	if rows := countRows(t, db, "tickets"); rows != 2*n/3 {
		t.Errorf("%d rows", rows)
	}
}

// TestSessionsOfAnOwnerAreFoundByPrefix compares prefixes that the index answers with those that it does not.
func TestSessionsOfAnOwnerAreFoundByPrefix(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "test.db"), nil).Tapes(nil)
	ids := []string{"web:a#1", "web:a#2", "web:ab#1", "web:a", "#x", "%", "web:a#2#3", "天#气"}
	for i, id := range ids {
		if _, err := s.Append(t.Context(), fmt.Sprint("t", i), tape.Batch{Create: true, Session: id, Entries: say("hi").Entries}); err != nil {
			t.Fatal(err)
		}
	}
	for _, prefix := range []string{"web:a#", "web:a", "web:a#2", "web:a#2#", "#", "%", "天#", "天", "web:A#", "x#"} {
		want, got := 0, 0
		for _, id := range ids {
			if strings.HasPrefix(id, prefix) {
				want++
			}
		}
		for in, err := range s.Sessions(t.Context(), tape.SessionQuery{Prefix: prefix}) {
			if err != nil || !strings.HasPrefix(in.Session, prefix) {
				t.Errorf("%q: %q, %v", prefix, in.Session, err)
			}
			got++
		}
		if got != want {
			t.Errorf("%q: %d sessions, want %d", prefix, got, want)
		}
	}
}
