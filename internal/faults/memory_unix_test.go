//go:build nightly && unix

package faults

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/fakeproviders"
)

var (
	runsMemory = regexp.MustCompile(`(?m)^lingserve_runs_memory_bytes (\S+)$`)
	heapAlloc  = regexp.MustCompile(`# HeapAlloc = (\d+)`)
)

// gauges returns what the server says that its runs hold, and what lives in its heap.
func (s *server) gauges() (runs, heap int64) {
	s.t.Helper()
	ask := func(path string, expr *regexp.Regexp) int64 {
		resp, err := http.Get("http://" + s.admin + path)
		if err != nil {
			s.t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			s.t.Fatal(err)
		}
		if expr == nil {
			return 0
		}
		m := expr.FindSubmatch(text)
		if m == nil {
			s.t.Fatalf("no %s at %s", expr, path)
		}
		n, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			s.t.Fatal(err)
		}
		return int64(n)
	}
	ask("/debug/pprof/heap?gc=1", nil) // what pools hold is given back by the second collection
	return ask("/metrics", runsMemory), ask("/debug/pprof/heap?gc=1&debug=1", heapAlloc)
}

// DO-01: of large inputs that come at once, a server with little memory takes as many as it has room for, and refuses the others at once. What
// it says that its runs hold is what its heap holds, and when they have ended it is free.
func TestDO_01_InputsThatDoNotFitAreRefusedAndTheGaugeTellsTheTruth(t *testing.T) {
	const clients, inputBytes, limit = 30, 750_000, 96 << 20
	s := serve(t, serving{
		args: []string{"--limit-memory", strconv.Itoa(limit)},
		script: func(r fakeproviders.Request) fakeproviders.Answer {
			if r.Model == "idle" {
				return raw(bytes_(openAI.begin("ok")), hang)
			}
			return answerOf(r)
		},
	})
	_, idle := s.gauges()
	body := fmt.Sprintf(`{"workflow":"text","model":"openai:idle","on_disconnect":"cancel","input":%q}`, strings.Repeat("word ", inputBytes/5))
	request := post(body, "text/event-stream")

	type reply struct {
		conn   net.Conn
		status int
		retry  string
		err    error
	}
	replies := make([]reply, clients)
	var all, sending sync.WaitGroup
	for i := range replies {
		all.Go(func() {
			r := &replies[i]
			if r.conn, r.err = net.DialTimeout("tcp", s.process.Addr(), patience); r.err != nil {
				return
			}
			sending.Go(func() { _, _ = io.WriteString(r.conn, request) }) // one that is refused need not be read
			_ = r.conn.SetReadDeadline(time.Now().Add(patience))
			in := bufio.NewReader(r.conn)
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				r.err = err
				return
			}
			r.status, r.retry = res.StatusCode, res.Header.Get("Retry-After")
			if r.status == http.StatusOK { // until the model has said something, which it does when it has read the request
				_, r.err = bufio.NewReader(res.Body).ReadString('\n')
			}
		})
	}
	all.Wait()
	defer sending.Wait()
	closeAll := func() {
		for _, r := range replies {
			if r.conn != nil {
				r.conn.Close()
			}
		}
	}
	defer closeAll()
	taken := 0
	for i, r := range replies {
		switch {
		case r.err != nil:
			t.Errorf("client %d: %v", i, r.err)
		case r.status == http.StatusOK:
			taken++
		case r.status != http.StatusServiceUnavailable || r.retry == "":
			t.Errorf("client %d: %d with Retry-After %q; expected 200, or 503 with one", i, r.status, r.retry)
		}
	}
	if most := limit / 4 / (3 * inputBytes); taken == 0 || taken > most+1 {
		t.Errorf("%d of %d inputs were taken; expected at most %d", taken, clients, most)
	}
	if a, err := s.do("GET", "/healthz", ""); err != nil || a.status != http.StatusOK {
		t.Errorf("/healthz: %v, %v", a, err)
	}
	eventually(t, "the models have been asked", func() bool { return s.model.Open() == taken })
	runs, heap := s.gauges()
	if held := heap - idle; runs < held*8/10 || runs > held*12/10 {
		t.Errorf("the gauge says %d, and the heap has grown by %d; expected at most a fifth of difference", runs, held)
	}
	closeAll()
	eventually(t, "what the runs held is free", func() bool { runs, _ := s.gauges(); return runs < inputBytes })
	s.served("m", "hello")
	s.alive()
}

// DO-07: a server that nobody has told how much memory it may have takes the limit of its container, or else of the machine.
func TestDO_07_AServerAlwaysHasALimitOfMemory(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("the memory of this system is not known")
	}
	s := serve(t, serving{args: []string{"--log-level", "debug"}})
	m, err := s.log.Find(t.Context(), regexp.MustCompile(`"msg":"limits","memory":(\d+),"memory_from":"(\w+)"`))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := strconv.ParseInt(m[1], 10, 64); err != nil || n < 16<<20 || m[2] != "container" && m[2] != "machine" {
		t.Errorf("%s bytes from %s; expected the limit of the container or of the machine", m[1], m[2])
	}
}
