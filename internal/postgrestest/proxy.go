package postgrestest

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy is between a store and its server, and breaks connections where a test wants it.
type Proxy struct {
	l      net.Listener
	socket string
	wg     sync.WaitGroup

	mu    sync.Mutex
	watch func(sent []byte) Cut // decides what happens to a message; nil: nothing
	all   map[net.Conn]bool
}

// Cut does something else with a message than sending it on, and then the connection ends.
type Cut func(from, to net.Conn, sent []byte)

// NewProxy starts a proxy in front of a server's socket. It ends with the test.
func NewProxy(t testing.TB, socket string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{l: l, socket: socket, all: map[net.Conn]bool{}}
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		_ = p.l.Close()
		p.Break()
		p.wg.Wait()
	})
	return p
}

// URL is the address of the server through the proxy.
func (p *Proxy) URL() string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", User, p.l.Addr(), Database)
}

// Break ends all connections.
func (p *Proxy) Break() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.all {
		_ = c.Close()
	}
}

// Watch has a function see each message that the store sends, one at a time, and decide whether it is cut.
func (p *Proxy) Watch(watch func(sent []byte) Cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watch = watch
}

// At cuts the next message that has a word, once. Pending reports whether that has not happened yet.
func (p *Proxy) At(word string, cut Cut) (pending func() bool) {
	waits := true
	p.Watch(func(sent []byte) Cut {
		if !waits || !bytes.Contains(sent, []byte(word)) {
			return nil
		}
		waits = false
		return cut
	})
	return func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return waits
	}
}

// NotSent is a cut before the server gets the message.
func NotSent(from, _ net.Conn, _ []byte) { _ = from.Close() }

// HalfSent is a cut in the middle of the message.
func HalfSent(from, to net.Conn, sent []byte) {
	_ = from.Close()
	_, _ = to.Write(sent[:len(sent)/2])
}

// NotAnswered is a cut whose message the server gets, but the answer to which is lost.
func NotAnswered(from, to net.Conn, sent []byte) {
	if c, ok := from.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = from.Close()
	_, _ = to.Write(sent)
	if c, ok := to.(*net.UnixConn); ok {
		_ = c.CloseWrite() // the server does the work before it sees the end
	}
	_, _ = io.Copy(io.Discard, to)
}

func (p *Proxy) keep(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.all[c] = true
	}
}

func (p *Proxy) serve() {
	for {
		from, err := p.l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("unix", p.socket)
		if err != nil {
			_ = from.Close()
			continue
		}
		p.keep(from, to)
		p.wg.Go(func() {
			defer from.Close()
			_, _ = io.Copy(from, to)
		})
		p.wg.Go(func() { p.send(from, to) })
	}
}

// send sends on what the store sends.
func (p *Proxy) send(from, to net.Conn) {
	defer to.Close()
	buf := make([]byte, 1<<20)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		var cut Cut
		p.mu.Lock()
		if p.watch != nil {
			cut = p.watch(buf[:n])
		}
		p.mu.Unlock()
		if cut != nil {
			cut(from, to, buf[:n])
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}
