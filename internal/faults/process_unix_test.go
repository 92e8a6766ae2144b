//go:build nightly && unix

package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// What happens to the server's own process, as users run it, and to its clients. Each row has a server of its own; behind each the
// server must serve, and hold no more than before.
var processFaults = []struct {
	name string
	ids  string
	do   func(t *testing.T, id string)
}{
	{"a reader is stopped for longer than its write may take", "FT-19", stoppedReader},
	{"thousands of streams are idle", "FT-31", idleStreams},
	{"many streams are busy at once", "FT-31", busyStreams},
	{"a client opens and closes runs without end", "FT-18", openAndClose},
	{"clients slam their connections at any moment", "FT-18", slam},
	{"event sources are abandoned", "FT-19, FT-20", abandoned},
	{"there are no more files", "FT-31", noFiles},
	{"there is little memory", "FT-31", littleMemory},
	{"large documents are made at once with little memory", "FT-31", largeAtOnce},
	{"runs begin until there is no memory", "FT-31", shedding},
}

func TestSoakOfTheProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("this system does not show what another process holds")
	}
	for _, row := range processFaults {
		t.Run(row.name, func(t *testing.T) {
			if *soakTime == 0 { // most of a short row is waiting; the figures of a long one are its own
				t.Parallel()
			}
			row.do(t, row.ids)
		})
	}
}

// brief are settings with which nothing that has ended is kept for long, so that what is left is seen soon.
var brief = []string{"--run-retention", "1s", "--run-ended-memory", "1MiB"}

// readerEnv tells the test's binary to be a client that follows a run: "URL model input".
const readerEnv = "LINGSERVE_FAULTS_READER"

// readerChild is that client. It says "reading" with its first event, and then what has become of the run.
func readerChild() int {
	args := strings.Fields(os.Getenv(readerEnv))
	s := &server{url: args[0], http: narrowClient()}
	told := false
	s.onEvent = func() {
		if !told {
			fmt.Println("reading")
		}
		told = true
		time.Sleep(100 * time.Microsecond) // a reader takes its time
	}
	f, connections, err := s.follow(context.Background(), args[1], args[2], "reader")
	right := f.json() == docOf(args[1], args[2])
	fmt.Printf("%s %v %d %d %v %q\n", f.state, right, connections, len(f.ids), err, f.wrong)
	return 0
}

// stoppedReader stops a client's process while its answer is longer than what sockets hold, until the server has dropped it, and lets
// it go on.
func stoppedReader(t *testing.T, id string) {
	const limit = 500 * time.Millisecond
	s := serve(t, serving{args: append([]string{"--http-write-timeout", limit.String()}, brief...)})
	before := s.footing()
	model := "size-" + strconv.Itoa(size(3<<20, 8<<20))
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	reader := exec.Command(exe)
	reader.Env = append(os.Environ(), readerEnv+"="+s.url+" "+model+" question")
	reader.Stderr = os.Stderr
	out, err := reader.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	defer reader.Process.Kill()
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "reading\n" {
		t.Fatalf("the reader said %q, %v", line, err)
	}
	if err := reader.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	// Its connection is not taken for longer than a write may take.
	eventuallySlowly(t, "the server drops the reader", func() bool { return s.slow() > 0 })
	dropped := time.Since(began)
	s.served("m", "another") // meanwhile
	time.Sleep(time.Until(began.Add(3 * limit)))
	if err := reader.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	line, err := lines.ReadString('\n')
	var state string
	var right bool
	var connections, events int
	if _, scan := fmt.Sscan(line, &state, &right, &connections, &events); err != nil || scan != nil || state != "completed" || !right || connections < 2 || !strings.HasSuffix(line, "<nil> []\n") {
		t.Errorf("the reader said %.300q, %v", line, err)
	}
	reader.Wait()
	after := s.settled(before, 1, 1<<20)
	s.stop()
	saw(t, id, fmt.Sprintf("a reader's process got SIGSTOP for %v in the middle of %s; a write may take %v", 3*limit, model, limit),
		"dropped after %.1f s; after SIGCONT it came back and had the right document over %d connections; %v before, %v afterwards", dropped.Seconds(), connections, before, after)
}

// idleStreams has many runs whose model says one word and no more, each with two clients that wait.
func idleStreams(t *testing.T, id string) {
	n := size(150, 10_000)
	// A run has a connection to its model and two to its clients; the program has one end of each, and this process the other.
	if limit := files(uint64(3*n/2 + 500)); limit < uint64(3*n/2+500) {
		t.Skipf("%d streams take %d files, and %d may be open", n, 3*n/2+500, limit)
	}
	keepAlive := time.Duration(size(800, 10_000)) * time.Millisecond
	s := serve(t, serving{args: append([]string{"--run-max", "20000", "--limit-connections", "15000", "--http-keepalive", keepAlive.String(), "--upstream-first-token", "0", "--upstream-idle", "0", "--upstream-connect", "0", "--limit-upstream", "0"}, brief...)})
	warm(s)
	before := s.footing()
	var begun, alive, broken atomic.Int64
	var clients sync.WaitGroup
	over := make(chan struct{})
	began := time.Now()
	gate := make(chan struct{}, 64) // that come at once
	for i := range n {
		clients.Go(func() {
			gate <- struct{}{}
			of := strconv.Itoa(i / 2)
			request := strings.Replace(post(runOf("idle", of), "text/event-stream"), "\r\n", "\r\nIdempotency-Key: "+of+"\r\n", 1)
			c, err := s.tcp(request)
			if err == nil {
				err = hearWords(c, textOf("idle", of))
			}
			<-gate
			if err != nil {
				broken.Add(1)
				t.Logf("stream %d: %v", i, err)
				return
			}
			defer c.Close()
			begun.Add(1)
			<-over
			// It has been told that the server is there, and is so still.
			if hearWords(c, "\n:\n") == nil {
				alive.Add(1)
			}
		})
	}
	eventuallySlowly(t, "all have begun", func() bool { return int(begun.Load()+broken.Load()) == n })
	took := time.Since(began)
	time.Sleep(keepAlive + keepAlive/4) // idle, with a sign of life for each
	idle := s.footing()
	cpu := s.cpu()
	time.Sleep(keepAlive)
	cpu = s.cpu() - cpu
	s.served("m", "beside")
	close(over)
	clients.Wait()
	if broken.Load() > 0 || alive.Load() != begun.Load() {
		t.Errorf("%d have begun, %d were broken, %d were still alive", begun.Load(), broken.Load(), alive.Load())
	}
	// The runs go on, for whoever comes back; the models' server goes away with its test, so that they end.
	s.breakModels()
	after := s.settled(before, n, 4<<10)
	s.stop()
	saw(t, id, fmt.Sprintf("%d streams of %d runs that say one word and wait", n, n/2),
		"all open after %.1f s; %v while idle (%.0f KiB RSS a stream, %.0f ms of CPU a second); another run beside them completes; %v before, %v afterwards",
		took.Seconds(), idle, float64(idle.rss-before.rss)/float64(n)/1024, cpu.Seconds()*1000/keepAlive.Seconds(), before, after)
}

// warm lets a server do a little of everything that it keeps something of.
func warm(s *server) {
	var clients sync.WaitGroup
	for i := range 20 {
		clients.Go(func() { s.served("m", "warm "+strconv.Itoa(i)) })
	}
	clients.Wait()
	s.http.CloseIdleConnections()
	eventuallySlowly(s.t, "its models are left", func() bool { return s.model.Open() == 0 })
	time.Sleep(50 * time.Millisecond)
}

// hearWords reads until the words have come.
func hearWords(c net.Conn, words string) error {
	c.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, 0, 1024)
	for {
		if len(buf) > 512 {
			buf = append(buf[:0], buf[len(buf)-256:]...)
		}
		n, err := c.Read(buf[len(buf):cap(buf)])
		if buf = buf[:len(buf)+n]; strings.Contains(string(buf), words) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w before %q: %q", err, words, buf)
		}
	}
}

// busyStreams has many runs whose models all speak at once, at a pace; each client checks all of its document.
func busyStreams(t *testing.T, id string) {
	n, tokens, pace := size(60, 1000), size(20, 200), 20
	if limit := files(uint64(2*n + 500)); limit < uint64(2*n+500) {
		t.Skipf("%d streams take %d files, and %d may be open", n, 2*n+500, limit)
	}
	s := serve(t, serving{args: brief})
	warm(s)
	before := s.footing()
	s.unbounded()
	model := fmt.Sprintf("pace-%d-%d", tokens, pace)
	var right, wrong, events atomic.Int64
	var clients sync.WaitGroup
	began := time.Now()
	for i := range n {
		clients.Go(func() {
			input := strconv.Itoa(i)
			f, _, err := s.follow(t.Context(), model, input, input)
			if err != nil || f.state != "completed" || f.json() != docOf(model, input) || len(f.wrong) > 0 {
				wrong.Add(1)
				t.Errorf("run %d: %s %s, %v, %q", i, f.state, clip(f.json()), err, f.wrong)
				return
			}
			right.Add(1)
			events.Add(int64(len(f.ids)))
		})
	}
	var most footing
	done := make(chan struct{})
	go func() { clients.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-time.After(500 * time.Millisecond):
			most.rss = max(most.rss, s.status("VmRSS"))
		}
	}
	took := time.Since(began)
	cpu := s.cpu() - before.cpu
	after := s.settled(before, n, 4<<10)
	s.stop()
	saw(t, id, fmt.Sprintf("%d runs at once, each of %d tokens at %d a second", n, tokens, pace),
		"%d right documents, %d wrong; %.1f s where the models take %.1f s; %d events, %.1f µs of CPU each; RSS %d MiB at most; %v before, %v afterwards",
		right.Load(), wrong.Load(), took.Seconds(), float64(tokens)/float64(pace), events.Load(), float64(cpu.Microseconds())/float64(max(1, events.Load())), most.rss>>20, before, after)
}

// openAndClose opens runs and leaves them, one after the other, on a few connections at a time.
func openAndClose(t *testing.T, id string) {
	n := size(200, 10_000)
	s := serve(t, serving{args: brief})
	warm(s)
	before := s.footing()
	var clients sync.WaitGroup
	var next atomic.Int64
	began := time.Now()
	for range 16 {
		clients.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				body := `{"workflow":"text","model":"openai:idle","input":"leaves ` + strconv.Itoa(int(i)) + `"}`
				request := strings.Replace(post(body, streams[i%2]), "/v1/runs ", "/v1/runs?on_disconnect=cancel ", 1)
				c, err := s.tcp(request)
				if err == nil {
					err = hearWords(c, "leaves")
				}
				if err != nil {
					t.Errorf("run %d: %v", i, err)
					return
				}
				if i%4 == 0 {
					c.SetLinger(0) // RST
				}
				c.Close()
			}
		})
	}
	clients.Wait()
	took := time.Since(began)
	eventuallySlowly(t, "all models are left", func() bool { return s.model.Open() == 0 })
	after := s.settled(before, n, 1<<10)
	s.served("m", "afterwards")
	s.stop()
	saw(t, id, fmt.Sprintf("%d runs opened, and left at their first word (`on_disconnect=cancel`), every fourth with RST", n),
		"all models left; %.0f runs a second; %v before, %v afterwards", float64(n)/took.Seconds(), before, after)
}

// slam breaks connections off at any moment: in the request's line, its header, its body, before the answer, in it.
func slam(t *testing.T, id string) {
	n := size(300, 20_000)
	s := serve(t, serving{args: brief})
	warm(s)
	before := s.footing()
	request := post(runOf("size-20000", "slams"), "text/event-stream")
	request = strings.Replace(request, "/v1/runs ", "/v1/runs?on_disconnect=cancel ", 1)
	var clients sync.WaitGroup
	var next, inRequest, inAnswer atomic.Int64
	for worker := range 8 {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 9))
			for next.Add(1) <= int64(n) {
				cut := min(len(request), r.IntN(2*len(request)))
				c, err := s.tcp(request[:cut])
				if err != nil {
					t.Error(err)
					return
				}
				if cut == len(request) {
					inAnswer.Add(1)
					io.CopyN(io.Discard, c, r.Int64N(20_000))
				} else {
					inRequest.Add(1)
				}
				switch r.IntN(3) {
				case 0:
					c.SetLinger(0)
				case 1:
					c.CloseWrite()
				}
				c.Close()
			}
		})
	}
	clients.Wait()
	eventuallySlowly(t, "all models are left", func() bool { return s.model.Open() == 0 })
	after := s.settled(before, n, 1<<10)
	s.served("m", "afterwards")
	s.stop()
	saw(t, id, fmt.Sprintf("%d connections slammed at a random byte, with FIN, RST, or half closed", n),
		"%d in the request, %d in the answer; %v before, %v afterwards", inRequest.Load(), inAnswer.Load(), before, after)
}

// abandoned has event sources as pages leave them: some do not read any more and stay, some come back after the end, again and again,
// as browsers do until they are told to stop.
func abandoned(t *testing.T, id string) {
	n := size(40, 1000)
	if limit := files(uint64(2*n + 500)); limit < uint64(2*n+500) {
		t.Skipf("%d streams take %d files, and %d may be open", n, 2*n+500, limit)
	}
	s := serve(t, serving{args: []string{"--http-write-timeout", "1s", "--http-keepalive", "1s", "--run-retention", "20s", "--run-ended-memory", "1MiB"}})
	warm(s)
	before := s.footing()
	get := func(query, last string) string {
		if last != "" {
			last = "Last-Event-ID: " + last + "\r\n"
		}
		return "GET /v1/runs?" + query + " HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n" + last + "\r\n"
	}
	var clients sync.WaitGroup
	var dropped, told atomic.Int64
	over := make(chan struct{})
	gate := make(chan struct{}, 64)
	hidden := 0 // that do not read
	for i := range n {
		if i%10 == 0 {
			hidden++
		}
		clients.Go(func() {
			gate <- struct{}{}
			leave := sync.OnceFunc(func() { <-gate })
			defer leave()
			if i%10 > 0 { // comes back after the end
				a, err := s.do("GET", "/v1/runs?workflow=text&model=openai:m&input=page+"+strconv.Itoa(i), "", "Accept: text/event-stream")
				if err != nil || a.state != "completed" || len(a.events) == 0 {
					t.Errorf("page %d: %v, %v", i, a, err)
					return
				}
				again, err := s.do("GET", "/v1/runs?workflow=text&model=openai:m&input=page+"+strconv.Itoa(i), "", "Accept: text/event-stream", "Last-Event-ID: "+a.events[len(a.events)-1].id)
				if err != nil || again.status != 204 {
					t.Errorf("page %d, again: %v, %v", i, again, err)
					return
				}
				told.Add(1)
				return
			}
			c, err := s.tcp(get("workflow=text&model=openai:size-4000000&input=hidden+"+strconv.Itoa(i), ""))
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			c.SetReadBuffer(32 << 10)
			if err := hearWords(c, "hidden"); err != nil {
				t.Error(err)
				return
			}
			// Nobody reads. That the server has dropped it shows at the end of what the sockets hold.
			leave()
			<-over
			c.SetReadDeadline(time.Now().Add(patience))
			if got, err := io.Copy(io.Discard, c); err != nil || got > 3_500_000 {
				if e, ok := err.(net.Error); ok && e.Timeout() || err == nil {
					t.Errorf("page %d was not dropped: it got %d bytes, %v", i, got, err)
					return
				}
			}
			dropped.Add(1)
		})
	}
	eventuallySlowly(t, "the server drops all that do not read", func() bool { return s.slow() >= hidden })
	close(over)
	clients.Wait()
	after := s.settled(before, n, 16<<10)
	s.served("m", "afterwards")
	s.stop()
	saw(t, id, fmt.Sprintf("%d event sources: nine of ten come back after the end of their run, one does not read", n),
		"%d were told to stop (204), %d were dropped by the write's deadline of 1 s; %v before, %v afterwards", told.Load(), dropped.Load(), before, after)
}

// noFiles takes all the files that the process may open, with connections that say nothing, and looks at what it does meanwhile.
func noFiles(t *testing.T, id string) {
	const most = 64
	s := serve(t, serving{by: limited("-n " + strconv.Itoa(most)), args: brief})
	// Before the shortage a stream begins.
	model := "pace-40-10"
	type end struct {
		f   *fold
		err error
	}
	stream := make(chan end, 1)
	go func() {
		f, _, err := s.follow(t.Context(), model, "early", "early")
		stream <- end{f, err}
	}()
	eventuallySlowly(t, "the stream has begun", func() bool { return s.model.Requests() == 1 })
	var idle []net.Conn
	for range 2 * most { // the system takes them, whether the server does or not
		c, err := net.DialTimeout("tcp", strings.TrimPrefix(s.url, "http://"), patience)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		idle = append(idle, c)
	}
	time.Sleep(200 * time.Millisecond)
	cpu := s.cpu()
	time.Sleep(1500 * time.Millisecond)
	cpu = s.cpu() - cpu
	if cpu > 600*time.Millisecond {
		t.Errorf("in 1.5 s without files the server has used %v of a processor", cpu)
	}
	e := <-stream
	if e.err != nil || e.f.state != "completed" || e.f.json() != docOf(model, "early") {
		t.Errorf("the stream that was there: %s %s, %v", e.f.state, e.f.json(), e.err)
	}
	for _, c := range idle {
		c.Close()
	}
	eventuallySlowly(t, "the server answers again", func() bool {
		a, err := s.do("POST", "/v1/runs", runOf("m", "later"), "Accept: application/json")
		return err == nil && a.status == 200 && a.doc == docOf("m", "later")
	})
	s.stop()
	saw(t, id, fmt.Sprintf("%d files at most, %d connections", most, 2*most), "the stream that was there ends with the right document; %.0f ms of CPU in 1.5 s of shortage; answers when the connections are gone", cpu.Seconds()*1000)
}

// littleMemory asks for many large documents of a process that has little memory: it refuses what is too much, and lives.
func littleMemory(t *testing.T, id string) {
	documentsInLittleMemory(t, id, size(8, 300), 1<<20, size(4, 64), "--run-max-log", "2MiB")
}

// largeAtOnce asks for more than all of the memory in the same moment: they are all let in, and then their models are read no faster than
// there is room.
func largeAtOnce(t *testing.T, id string) {
	n := size(16, 40)
	documentsInLittleMemory(t, id, n, 4<<20, n)
}

// documentsInLittleMemory asks for n documents of some size, so many at once, half of them whole and half as streams.
func documentsInLittleMemory(t *testing.T, id string, n, each, atOnce int, args ...string) {
	const limit = 192 << 20
	group, held := memoryGroup(t, limit)
	by := []string{"sh", "-c", "echo $$ > " + group + `/cgroup.procs && exec "$@"`, "sh"}
	how := "a cgroup"
	var env []string
	if !held {
		if n*each > limit/2 {
			t.Skip("without a control group, which this machine does not let us make, there is no end of the memory")
		}
		by, how, env = nil, "GOMEMLIMIT alone", []string{"GOMEMLIMIT=" + strconv.Itoa(limit*8/10)}
	}
	s := serve(t, serving{by: by, env: env, args: append(args, brief...)})
	warm(s)
	s.unbounded()
	before := s.footing()
	model := "size-" + strconv.Itoa(each)
	var right, refused, overloaded atomic.Int64
	var clients sync.WaitGroup
	gate := make(chan struct{}, atOnce)
	began := time.Now()
	for i := range n {
		gate <- struct{}{}
		clients.Go(func() {
			defer func() { <-gate }()
			input := strconv.Itoa(i)
			a, err := s.do("POST", "/v1/runs", runOf(model, input), "Accept: "+[]string{"application/json", "text/event-stream"}[i%2])
			switch {
			case err != nil:
				t.Errorf("run %d: %v", i, err)
			case a.status == 503 && a.header.Get("Retry-After") != "":
				refused.Add(1)
			case a.state == "completed" && a.doc == docOf(model, input):
				right.Add(1)
			case a.state == "failed" && strings.Contains(a.says(), "memory"):
				overloaded.Add(1)
			default:
				t.Errorf("run %d: %d %s, %d bytes, %.300q, %v", i, a.status, a.state, len(a.doc), a.says(), a.broken)
			}
		})
	}
	clients.Wait()
	took := time.Since(began)
	if t.Failed() {
		t.Logf("%d right, %d refused, %d ended", right.Load(), refused.Load(), overloaded.Load())
	}
	s.alive()
	most := s.status("VmHWM")
	if right.Load() == 0 {
		t.Error("no run was right")
	}
	eventuallySlowly(t, "the server serves again", func() bool {
		a, err := s.do("POST", "/v1/runs", runOf("m", "later"), "Accept: application/json")
		return err == nil && a.status == 200 && a.doc == docOf("m", "later")
	})
	after := s.settled(before, n, 4<<10)
	s.stop()
	saw(t, id, fmt.Sprintf("%d documents of %d MiB, %d at once, with %d MiB of memory (%s)", n, each>>20, atOnce, limit>>20, how),
		"lives, RSS %d MiB at most: %d right documents in %.1f s, %d refused with 503 and Retry-After, %d ended with the word that there was no memory; %v before, %v afterwards",
		most>>20, right.Load(), took.Seconds(), refused.Load(), overloaded.Load(), before, after)
}

// shedding begins runs until the server refuses them for want of memory: it says so, those that go on end right, and afterwards it takes new
// ones again.
func shedding(t *testing.T, id string) {
	limit, tokens, pace := size(72, 192)<<20, size(80, 160), 4
	group, held := memoryGroup(t, limit)
	if !held {
		t.Skip("without a control group, which this machine does not let us make, there is no end of the memory")
	}
	const most = 20_000
	if limit := files(2*most + 500); limit < 8000 {
		t.Skipf("the streams take thousands of files, and %d may be open", limit)
	}
	s := serve(t, serving{by: []string{"sh", "-c", "echo $$ > " + group + `/cgroup.procs && exec "$@"`, "sh"}, args: append([]string{"--run-max", "100000", "--limit-upstream", "0"}, brief...)})
	warm(s)
	s.unbounded()
	before := s.footing()
	model := fmt.Sprintf("pace-%d-%d", tokens, pace)
	var right, refused, started atomic.Int64
	var clients sync.WaitGroup
	began := time.Now()
	for i := 0; i < most && refused.Load() < 100; i++ {
		started.Add(1)
		clients.Go(func() {
			input := strconv.Itoa(i)
			a, err := s.do("POST", "/v1/runs", runOf(model, input), "Accept: "+streams[i%2])
			switch {
			case err != nil:
				t.Errorf("run %d: %v", i, err)
			case a.status == 503 && a.code() == "overloaded" && a.header.Get("Retry-After") != "" && strings.Contains(a.says(), "memory"):
				refused.Add(1)
			case a.state == "completed" && a.doc == docOf(model, input):
				right.Add(1)
			default:
				t.Errorf("run %d: %.500v", i, a)
			}
		})
		time.Sleep(time.Millisecond) // clients come one after the other
	}
	filled := time.Since(began)
	ready, err := s.do("GET", "/readyz", "")
	if err != nil || ready.status != 200 || !strings.Contains(string(ready.body), `"memory"`) {
		t.Errorf("while it refuses: %v, %v", ready, err)
	}
	clients.Wait()
	s.alive()
	rss := s.status("VmHWM")
	if refused.Load() == 0 || right.Load() == 0 {
		t.Errorf("%d refused, %d right", refused.Load(), right.Load())
	}
	eventuallySlowly(t, "the server serves again", func() bool {
		a, err := s.do("POST", "/v1/runs", runOf("m", "later"), "Accept: application/json")
		return err == nil && a.status == 200 && a.doc == docOf("m", "later")
	})
	after := s.settled(before, int(right.Load()), 4<<10)
	s.stop()
	saw(t, id, fmt.Sprintf("clients that come one after the other with %d MiB of memory (a cgroup), each for a stream of %.0f s", limit>>20, float64(tokens)/float64(pace)),
		"%d runs begin in %.1f s, then %d are refused with 503 and Retry-After; %d end with the right document; RSS %d MiB at most; afterwards it answers again; %v before, %v afterwards",
		started.Load()-refused.Load(), filled.Seconds(), refused.Load(), right.Load(), rss>>20, before, after)
}

// groups counts those that were made.
var groups atomic.Int64

// memoryGroup makes a group of processes that have so much memory together, where that is allowed.
func memoryGroup(t *testing.T, limit int) (string, bool) {
	if runtime.GOOS != "linux" {
		return "", false
	}
	for _, version := range []struct{ root, file string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"},
	} {
		group := fmt.Sprintf("%s/lingserve-faults-%d-%d", version.root, os.Getpid(), groups.Add(1))
		if os.Mkdir(group, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { eventually(t, "the group is gone", func() bool { return os.Remove(group) == nil }) })
		f, err := os.OpenFile(group+"/"+version.file, os.O_WRONLY, 0) // one that is there: the folder may be of no control groups
		if err != nil {
			continue
		}
		_, err = io.WriteString(f, strconv.Itoa(limit))
		if errors.Join(err, f.Close()) == nil {
			return group, true
		}
	}
	return "", false
}
