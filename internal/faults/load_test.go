//go:build nightly

package faults

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/web"
)

// FT-31: what is too much is refused, with the time to come back; what goes on is not harmed.
func TestMoreRunsThanAllowedAreRefusedAndTheOthersGoOn(t *testing.T) {
	const most = 3
	m := newTold()
	p := start(t, setup{handler: m.handler, web: func(o *web.Options) { o.MaxRuns = most }})
	var going []<-chan *answer
	for i := range most {
		started := p.do("POST", "/v1/runs", run("text"), "Prefer: respond-async")
		wait(t, "the model is asked", m.came)
		going = append(going, p.later("GET", "/v1/runs/"+started.run+"/events", "Accept: "+framings[i%len(framings)]))
	}
	for _, framing := range framings {
		a := p.ask(framing, run("text"))
		after, err := strconv.Atoi(a.header.Get("Retry-After"))
		if a.status != 503 || a.code() != "overloaded" || err != nil || after < 1 {
			t.Errorf("%v, Retry-After %q", a, a.header.Get("Retry-After"))
		}
	}
	for range going {
		m.say(t, piece("blue")+end)
	}
	close(m.pieces)
	for _, later := range going {
		if a := wait(t, "a run that goes on", later); a.state != "completed" || !strings.HasPrefix(a.doc, `{"answer":"blue`) {
			t.Errorf("%v", a)
		}
	}
	p.eventually("there is room again", func() bool { return p.ask("application/x-ndjson", run("text")).status == 200 })
}

// FT-31: thousands of clients that come at once all get their run, and take a bounded amount of memory, which is given back.
func TestABurstOfClientsIsServed(t *testing.T) {
	n := *burstSize
	switch {
	case n > 0:
	case *soakTime > 0:
		n = 2000
	default:
		n = 400
	}
	// Each stream has two connections, and both ends of both are here.
	if limit := files(uint64(4*n + 500)); limit < uint64(4*n+500) {
		t.Skipf("%d clients take %d files, and %d may be open", n, 4*n+500, limit)
	}
	release := make(chan struct{})
	var asked, served, failed atomic.Int64
	// On a machine that does much else, a burst takes long: nothing here is about time.
	patient := adapter.Timeouts{Connect: -1, FirstToken: -1, Idle: -1}
	p := start(t, setup{limits: patient, handler: func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, piece("bl"))
			http.NewResponseController(w).Flush()
			asked.Add(1)
			select {
			case <-release:
				io.WriteString(w, piece("ue")+end)
			case <-r.Context().Done():
			}
		})
	}})
	before, liveBefore := inUse(), live()
	body := run("text")
	request := fmt.Sprintf("POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nAccept: application/x-ndjson\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	var begun atomic.Int64
	var clients sync.WaitGroup
	began := time.Now()
	for range n {
		clients.Go(func() {
			c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
			if err != nil {
				failed.Add(1)
				t.Log(err)
				return
			}
			defer c.Close()
			if _, err := io.WriteString(c, request); err != nil {
				t.Log(err)
			}
			lines := bufio.NewReaderSize(c, 512)
			var said strings.Builder
			for first := true; ; {
				line, err := lines.ReadString('\n')
				if err != nil {
					break
				}
				said.WriteString(line)
				if first && strings.Contains(line, `"bl"`) {
					first = false
					begun.Add(1)
				}
			}
			if text := said.String(); strings.Contains(text, `"ue"`) && strings.Contains(text, `{"status":"completed"}`) {
				served.Add(1)
			} else {
				failed.Add(1)
				t.Logf("a client got %.500q", text)
			}
		})
	}
	p.eventually("all have begun", func() bool { return int(begun.Load()+failed.Load()) == n })
	t.Logf("%d clients have their first token after %v", begun.Load(), time.Since(began))
	// All of it: clients, product, and model, with the sockets' buffers in Go and the stacks of some ten goroutines a stream.
	const most = 256 << 10
	if each := (int64(inUse()) - int64(before)) / int64(n); each > most {
		t.Errorf("a stream takes %d KiB", each>>10)
	} else {
		t.Logf("a stream takes %d KiB, with its client and its model", each>>10)
	}
	close(release)
	clients.Wait()
	if int(served.Load()) != n || failed.Load() != 0 {
		t.Errorf("%d of %d were served, %d failed", served.Load(), n, failed.Load())
	}
	p.idle()
	p.eventually("the connections are closed", func() bool { return p.fromClients.open() == 0 })
	// Ended runs are kept for a while, with some 12 KiB each, and connections to the model for the next burst; little else stays.
	adapter.Transport(adapter.TransportOptions{Connect: patient.Connect}).CloseIdleConnections()
	p.eventually("the model's connections are closed", func() bool { return p.fromProduct.open() == 0 })
	inUse() // pools are emptied by the second collection
	if each := (int64(live()) - int64(liveBefore)) / int64(n); each > 24<<10 {
		t.Errorf("%d KiB of a stream stay", each>>10)
	} else {
		t.Logf("%d KiB of a stream stay", each>>10)
	}
}

// live is the memory of what can be reached, and of the stacks. How full the pages are in which it lies depends on the tests before.
func live() uint64 {
	inUse()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// inUse is the memory that is in use, after the garbage has been collected.
func inUse() uint64 {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
