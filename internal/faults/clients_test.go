//go:build nightly && unix

package faults

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/fleet"
)

// readerEnv makes the test's binary a client that follows a run: "URL model input key".
const readerEnv = "LINGSERVE_FAULTS_READER"

// followAsChild is that client. It prints "reading" at the first event, and how the run ended.
func followAsChild(text string) int {
	args := strings.Fields(text)
	s := &server{url: args[0], http: &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = c.(*net.TCPConn).SetReadBuffer(64 << 10) // little fits into the sockets
		}
		return c, err
	}}}}
	tell := sync.OnceFunc(func() { fmt.Println("reading") })
	f := &fold{onEvent: func() { tell(); time.Sleep(100 * time.Microsecond) }} // a reader takes its time
	connections, err := s.follow(context.Background(), f, sse, "/v1/runs?on_disconnect="+args[3], runOf(args[1], args[2]), "reader", nil)
	fmt.Printf("%s right:%v again:%v %v %q\n", f.state, f.json() == docOf(args[1], args[2]), connections > 1, err, f.wrong)
	return 0
}

// startReader starts such a client by a command, and waits until it reads.
func startReader(t *testing.T, s *server, by []string, model, onDisconnect string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := append(append([]string{}, by...), exe)
	reader := exec.Command(command[0], command[1:]...)
	reader.Env = append(os.Environ(), readerEnv+"="+strings.Join([]string{s.url, model, "question", onDisconnect}, " "))
	reader.Stderr = os.Stderr
	out, err := reader.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Process.Kill(); _ = reader.Wait() })
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "reading\n" {
		t.Fatalf("the reader printed %q, %v", line, err)
	}
	return reader, lines
}

// FT-19
func TestStoppedReaderIsDroppedAndComesBack(t *testing.T) {
	parallel(t)
	s := serve(t, serving{args: append([]string{"--http-write-timeout", "500ms"}, brief...)})
	before := s.footing()
	reader, lines := startReader(t, s, nil, "size-"+strconv.Itoa(size(3<<20, 8<<20)), "continue")
	if err := reader.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	eventually(t, "the server drops the reader", func() bool { return s.dropped() > 0 })
	t.Logf("dropped after %.1f s, with a write timeout of 0.5 s", time.Since(began).Seconds())
	s.serves("another")
	if err := reader.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if line, err := lines.ReadString('\n'); line != "completed right:true again:true <nil> []\n" {
		t.Errorf("the reader printed %.300q, %v", line, err)
	}
	t.Logf("%v before, %v afterwards", before, s.settle(before, 1, 1<<20))
	s.stop()
}

// FT-20: the cable of a client is cut. Nothing of it arrives any more, neither data nor FIN nor RST.
func TestClientThatVanishesIsNoticed(t *testing.T) {
	parallel(t)
	network, err := fleet.NewNetwork()
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
	_, enter, err := network.Add("client")
	if err != nil {
		t.Fatal(err)
	}
	servers := map[string]*server{}
	for name, keepAlive := range map[string]string{"while the server writes": "50ms", "while the server is silent": "1h"} {
		s := serve(t, serving{args: []string{"--addr", network.Host() + ":0", "--insecure", "--http-keepalive", keepAlive, "--upstream-first-token", "0", "--upstream-idle", "0"}})
		startReader(t, s, enter, "idle", "cancel")
		servers[name] = s
	}
	if err := network.Part("client"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var noticed sync.WaitGroup
	for name, s := range servers {
		noticed.Go(func() {
			eventually(t, name+": the model is left", func() bool { return s.model.Open() == 0 })
			t.Logf("%s: noticed after %.1f s", name, time.Since(began).Seconds())
		})
	}
	noticed.Wait()
}

// FT-31
func TestIdleStreamsStayOpenAndLeaveNothing(t *testing.T) {
	parallel(t)
	n := size(150, 10_000)
	openFiles(t, 3*n/2+500) // a run has a connection to its model and two to its clients, and one end of each is here
	keepAlive := time.Duration(size(800, 10_000)) * time.Millisecond
	s := serve(t, serving{args: append([]string{
		"--run-max", "20000", "--limit-connections", "15000", "--http-keepalive", keepAlive.String(), "--upstream-first-token", "0", "--upstream-idle", "0",
		"--upstream-connect", "0", "--limit-upstream", "0",
	}, brief...)})
	before := s.warm()
	var ready atomic.Int64
	var clients sync.WaitGroup
	over, gate := make(chan struct{}), make(chan struct{}, 64) // that come at once
	began := time.Now()
	for i := range n {
		clients.Go(func() {
			gate <- struct{}{}
			of := strconv.Itoa(i / 2)
			c, err := s.tcp(post("/v1/runs", runOf("idle", of), sse, "Idempotency-Key: "+of))
			if err == nil {
				defer c.Close()
				err = readUntil(c, textOf("idle", of))
			}
			<-gate
			ready.Add(1)
			if <-over; err == nil {
				err = readUntil(c, "\n:\n") // a sign of life
			}
			if err != nil {
				t.Errorf("stream %d: %v", i, err)
			}
		})
	}
	eventually(t, "all streams have begun", func() bool { return int(ready.Load()) == n })
	took := time.Since(began)
	time.Sleep(keepAlive) // idle, with a sign of life for each
	idle, cpu := s.footing(), s.cpu()
	time.Sleep(keepAlive)
	cpu = s.cpu() - cpu
	s.serves("meanwhile")
	close(over)
	clients.Wait()
	s.breakModels() // which ends the runs
	after := s.settle(before, n, 4<<10)
	s.stop()
	t.Logf("%d streams open after %.1f s: %.0f KiB RSS a stream, %.0f ms of CPU a second; %v before, %v idle, %v afterwards", n, took.Seconds(),
		float64(idle.rss-before.rss)/float64(n)/1024, cpu.Seconds()*1000/keepAlive.Seconds(), before, idle, after)
}

// FT-18: connections end at a random byte of the request or of the answer, with FIN, RST or half closed.
func TestClientsThatLeaveAtAnyByteLeaveNothing(t *testing.T) {
	parallel(t)
	n := size(500, 20_000)
	s := serve(t, serving{args: brief})
	before := s.warm()
	var clients sync.WaitGroup
	var next, inRequest, inAnswer atomic.Int64
	began := time.Now()
	for worker := range 8 {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 9))
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				request := post("/v1/runs?on_disconnect=cancel", runOf([]string{"size-20000", "idle"}[i%2], "leaves"), streams[r.IntN(2)])
				cut := min(len(request), r.IntN(2*len(request)))
				c, err := s.tcp(request[:cut])
				if err != nil {
					t.Error(err)
					return
				}
				switch {
				case cut < len(request):
					inRequest.Add(1)
				case i%2 == 1: // at the first word, and the model says no other
					if err := readUntil(c, "leaves"); err != nil {
						t.Error(err)
					}
					inAnswer.Add(1)
				default:
					_, _ = io.CopyN(io.Discard, c, r.Int64N(20_000))
					inAnswer.Add(1)
				}
				switch r.IntN(3) {
				case 0:
					_ = c.SetLinger(0)
				case 1:
					_ = c.CloseWrite()
				}
				c.Close()
			}
		})
	}
	clients.Wait()
	took := time.Since(began)
	eventually(t, "all models are left", func() bool { return s.model.Open() == 0 })
	after := s.settle(before, n, 1<<10)
	s.serves("afterwards")
	s.stop()
	t.Logf("%d left in the request, %d in the answer, %.0f a second; %v before, %v afterwards", inRequest.Load(), inAnswer.Load(), float64(n)/took.Seconds(), before, after)
}

// FT-31: the process may open no more files. What goes on goes on, at little cost, and new clients are served when there are files again.
func TestServerOutlivesALackOfFiles(t *testing.T) {
	parallel(t)
	const most, model = 64, "pace-40-10"
	s := serve(t, serving{by: []string{"sh", "-c", "ulimit -n " + strconv.Itoa(most) + ` && exec "$@"`, "sh"}, args: brief})
	var early fold
	ended := make(chan error, 1)
	go func() {
		_, err := s.follow(t.Context(), &early, sse, "/v1/runs", runOf(model, "early"), "early", nil)
		ended <- err
	}()
	eventually(t, "the stream has begun", func() bool { return s.model.Requests() == 1 })
	var idle []net.Conn
	for range 2 * most { // the system accepts them, whether the server does or not
		c, err := net.Dial("tcp", s.process.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		idle = append(idle, c)
	}
	time.Sleep(200 * time.Millisecond)
	cpu := s.cpu()
	time.Sleep(1500 * time.Millisecond)
	if cpu = s.cpu() - cpu; cpu > 600*time.Millisecond {
		t.Errorf("in 1.5 s without files the server has used %v of a processor", cpu)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	early.check(t, docOf(model, "early"))
	for _, c := range idle {
		c.Close()
	}
	s.servesAgain()
	s.stop()
	t.Logf("%v of CPU in 1.5 s without files", cpu)
}

// raiseFiles lets this process open so many files, if it may, and returns how many it can open.
func raiseFiles(want uint64) uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	if limit.Cur < want {
		more := syscall.Rlimit{Cur: want, Max: max(want, limit.Max)}
		if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &more) == nil {
			limit = more
		}
	}
	return limit.Cur
}
