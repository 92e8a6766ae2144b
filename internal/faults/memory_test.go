//go:build nightly && unix

package faults

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	runsMemory = regexp.MustCompile(`(?m)^lingserve_runs_memory_bytes (\S+)$`)
	heapAlloc  = regexp.MustCompile(`# HeapAlloc = (\d+)`)
)

// DO-01: the server keeps about as much memory for its runs as they hold on the heap; a copy that is garbage soon counts too.
func TestLargeInputsBeyondTheMemoryAreRefused(t *testing.T) {
	parallel(t)
	const clients, inputBytes, limit = 30, 750_000, 96 << 20
	s := serve(t, serving{args: []string{"--limit-memory", strconv.Itoa(limit)}})
	gauges := func() (runs, heap int64) {
		s.ask("/debug/pprof/heap?gc=1") // the second collection empties pools
		return s.sum("/metrics", runsMemory), s.sum("/debug/pprof/heap?gc=1&debug=1", heapAlloc)
	}
	_, before := gauges()
	request := post("/v1/runs?on_disconnect=cancel", runOf("idle", strings.Repeat("word ", inputBytes/5)), sse)
	var taken atomic.Int64
	var asking, open sync.WaitGroup
	over := make(chan struct{})
	for i := range clients {
		asking.Add(1)
		open.Go(func() {
			answered := sync.OnceFunc(asking.Done)
			defer answered()
			c, err := s.tcp("")
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			go io.WriteString(c, request) // which nobody reads to its end if it is refused
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			switch {
			case err != nil:
				t.Errorf("client %d: %v", i, err)
			case resp.StatusCode == http.StatusOK:
				taken.Add(1)
				answered()
				<-over
			case resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "":
				t.Errorf("client %d: %s with Retry-After %q; want 200, or 503 with one", i, resp.Status, resp.Header.Get("Retry-After"))
			}
		})
	}
	asking.Wait()
	if most := int64(limit / 4 / (3 * inputBytes)); taken.Load() == 0 || taken.Load() > most+1 {
		t.Errorf("%d of %d inputs were taken, want at most %d", taken.Load(), clients, most)
	}
	eventually(t, "the models are asked", func() bool { return int64(s.model.Open()) == taken.Load() })
	eventually(t, "the gauge and the growth of the heap are within half of each other", func() bool { // the first copies are garbage by then
		runs, heap := gauges()
		return runs*3/2 >= heap-before && runs <= (heap-before)*3/2
	})
	close(over)
	open.Wait()
	eventually(t, "the memory of the runs is free", func() bool { runs, _ := gauges(); return runs < inputBytes })
	s.serves("hello")
	s.stop()
}

// FT-31: more documents at once than fit into the memory.
func TestLargeDocumentsAreMadeOneAfterAnother(t *testing.T) {
	parallel(t)
	const each, limit = 4 << 20, 192 << 20
	n := size(16, 40)
	s := serve(t, inMemory(t, limit))
	before := s.warm()
	model := "size-" + strconv.Itoa(each)
	var right, refused atomic.Int64
	var clients sync.WaitGroup
	began := time.Now()
	for i := range n {
		clients.Go(func() {
			input := strconv.Itoa(i)
			a := s.start(model, input, "Accept: "+[]string{"application/json", sse}[i%2])
			switch {
			case completed(a, model, input):
				right.Add(1)
			case a.overloaded(), a.state == "failed" && strings.Contains(a.message(), "memory"):
				refused.Add(1)
			default:
				t.Errorf("run %d: %d %s, %d bytes, %.300q, %v", i, a.status, a.state, len(a.doc), a.message(), a.broken)
			}
		})
	}
	clients.Wait()
	took := time.Since(began)
	s.alive()
	most := s.status("VmHWM")
	if right.Load() == 0 {
		t.Error("no document was right")
	}
	s.servesAgain()
	after := s.settle(before, n, 4<<10)
	s.stop()
	t.Logf("%d documents of %d MiB at once in %d MiB: %d right in %.1f s, %d refused, RSS %d MiB at most; %v before, %v afterwards",
		n, each>>20, limit>>20, right.Load(), took.Seconds(), refused.Load(), most>>20, before, after)
}

// FT-31: streams start until the server refuses them. Those that go on end right, and later ones are taken again.
func TestStreamsAreRefusedWhileTheMemoryIsFull(t *testing.T) {
	parallel(t)
	const most = 20_000
	limit, tokens, pace := size(72, 192)<<20, size(80, 160), 4
	openFiles(t, size(8000, 20_000))
	o := inMemory(t, limit)
	o.args = append(o.args, "--run-max", "100000", "--limit-upstream", "0")
	s := serve(t, o)
	before := s.warm()
	model := fmt.Sprintf("pace-%d-%d", tokens, pace)
	var right, refused, started atomic.Int64
	var clients sync.WaitGroup
	for i := 0; i < most && refused.Load() < 100; i++ {
		started.Add(1)
		clients.Go(func() {
			input := strconv.Itoa(i)
			a := s.start(model, input, "Accept: "+streams[i%2])
			switch {
			case completed(a, model, input):
				right.Add(1)
			case a.overloaded() && a.code() == "overloaded" && strings.Contains(a.message(), "memory"):
				refused.Add(1)
			default:
				t.Errorf("run %d: %.500v", i, a)
			}
		})
		time.Sleep(time.Millisecond) // one client after the other
	}
	if a := s.do("GET", "/readyz", ""); a.status != 200 || !strings.Contains(string(a.body), `"memory"`) {
		t.Errorf("/readyz while the server refuses: %v", a)
	}
	clients.Wait()
	s.alive()
	rss := s.status("VmHWM")
	if refused.Load() == 0 || right.Load() == 0 {
		t.Errorf("%d refused, %d right", refused.Load(), right.Load())
	}
	s.servesAgain()
	after := s.settle(before, int(right.Load()), 4<<10)
	s.stop()
	t.Logf("in %d MiB %d streams start, then %d are refused; %d end right, RSS %d MiB at most; %v before, %v afterwards",
		limit>>20, started.Load()-refused.Load(), refused.Load(), right.Load(), rss>>20, before, after)
}

// groups counts the control groups of this process.
var groups atomic.Int64

// inMemory returns the settings of a server with so much memory: in a control group, where this machine allows to make one, so that the system
// ends it if it takes more.
func inMemory(t *testing.T, limit int) serving {
	for root, file := range map[string]string{"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"} {
		group := fmt.Sprintf("%s/lingserve-faults-%d-%d", root, os.Getpid(), groups.Add(1))
		if os.Mkdir(group, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { eventually(t, "the control group is empty", func() bool { return os.Remove(group) == nil }) })
		f, err := os.OpenFile(group+"/"+file, os.O_WRONLY, 0) // without O_CREATE: the folder may be of no control groups
		if err != nil {
			continue
		}
		_, err = io.WriteString(f, strconv.Itoa(limit))
		if errors.Join(err, f.Close()) == nil {
			return serving{by: []string{"sh", "-c", "echo $$ > " + group + `/cgroup.procs && exec "$@"`, "sh"}, args: brief}
		}
	}
	t.Log("there are no control groups here; the server has a limit of its own")
	return serving{args: append([]string{"--limit-memory", strconv.Itoa(limit)}, brief...)}
}
