//go:build nightly

package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/tape"
	"github.com/lingserve/lingserve/tape/logs"
)

// sessionsIn makes sessions of a workspace, in a server's data folder; every tenth is of the key "alice".
func sessionsIn(t *testing.T, data, workspace string, n int) {
	t.Helper()
	s, err := logs.OpenFolder(filepath.Join(data, "tapes"), logs.FolderOptions{Sync: logs.SyncNone})
	if err != nil {
		t.Fatal(err)
	}
	base := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	for i := range n {
		id := fmt.Sprintf("web:bob%d#s%d", i%7, i)
		if i%10 == 0 {
			id = fmt.Sprintf("web:alice#s%d", i)
		}
		e := tape.NewMessage("user", "hello")
		e.Date = base.Add(time.Duration(i*7919%n) * time.Second)
		if _, err := s.Append(t.Context(), tape.Name(workspace, id), tape.Batch{Create: true, Session: id, Workspace: tape.ResolveWorkspace(workspace), Entries: []tape.Entry{e}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// reads is how many system calls of a process have read anything.
func reads(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "syscr: ")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// DO-03: a page of the list of sessions costs the server what the page is long, and not what it has in all. Each page is right.
func TestDO_03_APageOfSessionsReadsOnlyTheSessionsOfThePage(t *testing.T) {
	const (
		requests, limit = 20, 5
		alice, carol    = "alice-has-a-key-of-her-own", "carol-has-a-key-of-her-own"
	)
	read := map[int]int{}
	for _, sessions := range []int{200, 2000} {
		data, workspace := t.TempDir(), t.TempDir()
		sessionsIn(t, data, workspace, sessions)
		s := serve(t, serving{data: data, args: []string{"--workspace", workspace}, env: []string{"LINGSERVE_API_KEYS=alice:" + alice + ":user,carol:" + carol + ":user"}})
		page := func(query, key string) (ids []string, next string) {
			a, err := s.do("GET", "/v1/sessions?"+query, "", "Authorization: Bearer "+key)
			if err != nil {
				t.Fatal(err)
			}
			var list struct {
				Sessions []struct{ ID string }
				Next     string
			}
			if err := json.Unmarshal([]byte(a.body), &list); err != nil || a.status != 200 {
				t.Fatalf("%v: %v", err, a)
			}
			for _, in := range list.Sessions {
				ids = append(ids, in.ID)
			}
			return ids, list.Next
		}
		page("limit=1", alice) // the first one of a process looks at all
		seen := map[string]bool{}
		before := reads(t, s.process.Pid())
		query := fmt.Sprintf("limit=%d", limit)
		for after := ""; len(seen) < requests*limit && len(seen) < sessions/10; {
			ids, next := page(query+after, alice)
			for _, id := range ids {
				seen[id] = true
			}
			if after = "&after=" + next; next == "" || len(ids) != limit {
				break
			}
		}
		if want := min(requests*limit, sessions/10); len(seen) != want {
			t.Errorf("of %d sessions, pages have shown %d of alice, want %d", sessions, len(seen), want)
		}
		if ids, _ := page("limit=200", carol); len(ids) != 0 {
			t.Errorf("carol has %d sessions", len(ids))
		}
		var clients sync.WaitGroup
		for range 60 {
			clients.Go(func() {
				if a, err := s.do("GET", "/v1/sessions?limit=1", "", "Authorization: Bearer "+alice); err != nil || a.status != 200 {
					t.Errorf("one of 60 at once: %v, %v", a, err)
				}
			})
		}
		clients.Wait()
		read[sessions] = reads(t, s.process.Pid()) - before
		s.stop()
	}
	// The many have five times the pages of alice: no more than 80 sessions more in all.
	if few, many := read[200], read[2000]; many > few+1500 {
		t.Errorf("of 200 sessions %d reads, of 2000 %d", few, many)
	}
}
