//go:build nightly

package faults

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lingserve/lingserve/internal/longtest"
	"github.com/lingserve/lingserve/web"
)

// Socket options of linux/tcp.h that package syscall does not have.
const (
	tcpUserTimeout = 18
	inTestTimeout  = time.Second // that takes the place of the server's, so that the test does not take as long
)

// FT-20: a client that is gone without a word (its host has lost power, or the network between) is noticed in bounded time,
// whether something is on its way to it or not. Client and server are in network namespaces of their own, and the client's
// route to the server is taken away: nothing of it arrives any more, neither data nor FIN nor RST.
func TestAClientThatIsGoneWithoutAWordIsNoticed(t *testing.T) {
	serverSide, clientSide := newNamespace(t), newNamespace(t)
	serverSide.ip(t, "link", "set", "lo", "up")
	serverSide.ip(t, "link", "add", "faults0", "type", "veth", "peer", "name", "faults1", "netns", strconv.Itoa(clientSide.thread))
	serverSide.ip(t, "addr", "add", "10.99.0.1/24", "dev", "faults0")
	serverSide.ip(t, "link", "set", "faults0", "up")
	clientSide.ip(t, "addr", "add", "10.99.0.2/24", "dev", "faults1")
	clientSide.ip(t, "link", "set", "faults1", "up")

	for _, row := range []struct {
		name   string
		beside time.Duration // between comments
	}{
		{"while something is written", 50 * time.Millisecond},
		{"while nothing is", time.Hour},
	} {
		t.Run(row.name, func(t *testing.T) {
			clientSide.ip(t, "route", "flush", "table", "main", "type", "blackhole")
			m := newTold()
			accepted := make(chan net.Conn, 1)
			p := start(t, setup{
				handler: m.handler, address: "10.99.0.1:0", in: serverSide.do,
				web:    func(o *web.Options) { o.KeepAlive = row.beside },
				listen: func(l net.Listener) net.Listener { return &watched{l, accepted} },
			})
			var c net.Conn
			var err error
			clientSide.do(func() { c, err = net.DialTimeout("tcp", strings.TrimPrefix(p.url, "http://"), patience) })
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			checkSocket(t, wait(t, "the connection is accepted", accepted))
			body := run("text")
			fmt.Fprintf(c, "POST /v1/runs?on_disconnect=cancel HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			wait(t, "the model is asked", m.came)
			m.say(t, piece("blue"))
			var head strings.Builder
			for buf := make([]byte, 256); !strings.Contains(head.String(), "blue"); {
				n, err := c.Read(buf)
				if err != nil {
					t.Fatal(err)
				}
				head.Write(buf[:n])
			}
			clientSide.ip(t, "route", "add", "blackhole", "10.99.0.1/32")
			began := time.Now()
			bound := 10 * inTestTimeout
			if *soakTime > 0 {
				bound = 90 * time.Second
			}
			took := wait(t, "the client's end is noticed", m.left).Sub(began)
			longtest.Within(t, "until it was noticed", took, bound)
			saw(t, "FT-20", "the route to a client is taken away, in network namespaces, "+row.name, "noticed after %.1f s", took.Seconds())
			p.eventually("its connection is closed", func() bool { return p.fromClients.open() == 0 })
			p.idle()
			c.SetReadDeadline(time.Now())
			io.Copy(io.Discard, c)
		})
	}
}

// watched hands out the connections that it accepts.
type watched struct {
	net.Listener
	accepted chan net.Conn
}

func (l *watched) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.accepted <- c
	}
	return c, err
}

// checkSocket looks at what is set of an accepted connection, and makes the times short.
func checkSocket(t *testing.T, c net.Conn) {
	t.Helper()
	for {
		below, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = below.NetConn()
	}
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		for _, o := range []struct {
			name               string
			level, option      int
			least, most, short int
		}{
			{"TCP_USER_TIMEOUT", syscall.IPPROTO_TCP, tcpUserTimeout, 10_000, 60_000, int(inTestTimeout.Milliseconds())},
			{"SO_KEEPALIVE", syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1, 1, 1},
			{"TCP_KEEPIDLE", syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 1, 30, 1},
			{"TCP_KEEPINTVL", syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 1, 30, 1},
			{"TCP_KEEPCNT", syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 1, 4, 1},
			{"SO_SNDBUF", syscall.SOL_SOCKET, syscall.SO_SNDBUF, 64 << 10, 512 << 10, 0},
		} {
			is, err := syscall.GetsockoptInt(int(fd), o.level, o.option)
			if err != nil || is < o.least || is > o.most {
				t.Errorf("%s is %d (%v), and not between %d and %d", o.name, is, err, o.least, o.most)
			}
			if o.short > 0 && *soakTime == 0 {
				if err := syscall.SetsockoptInt(int(fd), o.level, o.option, o.short); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// namespace is a network of its own: a thread that has left the one of all others, and does what it is told.
type namespace struct {
	thread int
	work   chan func()
}

// newNamespace makes a namespace that is gone after the test; it skips the test where this cannot be done.
func newNamespace(t *testing.T) *namespace {
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("the command ip (of iproute2) is not there")
	}
	n := &namespace{work: make(chan func())}
	ready := make(chan error)
	over := make(chan struct{})
	go func() {
		defer close(over)
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine, and the namespace with the thread
		n.thread = syscall.Gettid()
		ready <- syscall.Unshare(syscall.CLONE_NEWNET)
		for f := range n.work {
			f()
		}
	}()
	t.Cleanup(func() { close(n.work); <-over })
	if err := <-ready; err != nil {
		t.Skipf("a network namespace cannot be made here (it takes root): %v", err)
	}
	return n
}

// do runs f on the namespace's thread.
func (n *namespace) do(f func()) {
	done := make(chan struct{})
	n.work <- func() { defer close(done); f() }
	<-done
}

// ip runs the command ip in the namespace.
func (n *namespace) ip(t *testing.T, args ...string) {
	t.Helper()
	var out []byte
	var err error
	n.do(func() { out, err = exec.Command("ip", args...).CombinedOutput() })
	if err != nil {
		t.Skipf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}
