package fakeproviders

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// window is how many bytes a writer may be ahead of its reader, as much as a socket's buffer on the loop-back interface
// starts with.
const window = 64 << 10

// newPipe returns the two ends of a connection in memory. Unlike net.Pipe's, its writes do not wait for the reader until the
// window is full, as on a socket. It waits on condition variables and timers only, so that it can be used in a synctest
// bubble.
func newPipe() (a, b net.Conn) {
	x, y := newHalf(), newHalf()
	return &conn{in: x, out: y}, &conn{in: y, out: x}
}

// conn is one end of a connection.
type conn struct{ in, out *half }

func (c *conn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *conn) Write(b []byte) (int, error) { return c.out.write(b) }

// Close ends both directions: the other end reads what is there and then EOF, and cannot write any more.
func (c *conn) Close() error {
	c.in.end(true)
	c.out.end(false)
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return address{} }
func (c *conn) RemoteAddr() net.Addr { return address{} }

func (c *conn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.readBy, t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writeBy, t)
	return nil
}

// half carries the bytes of one direction.
type half struct {
	mu      sync.Mutex
	changed sync.Cond
	buf     []byte // buf[from:] is what has not been read
	from    int
	closed  bool // nothing will be written any more
	dropped bool // nothing will be read any more
	readBy  deadline
	writeBy deadline
}

// deadline is a point in time after which waiting is given up.
type deadline struct {
	timer  *time.Timer
	passed bool
	set    int // how often it was set: a timer of an earlier one may still fire
}

func newHalf() *half {
	h := new(half)
	h.changed.L = &h.mu
	return h
}

func (h *half) read(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.dropped:
			return 0, net.ErrClosed
		case h.readBy.passed:
			return 0, os.ErrDeadlineExceeded
		case h.from < len(h.buf):
			n := copy(b, h.buf[h.from:])
			h.from += n
			if h.from == len(h.buf) {
				h.buf, h.from = h.buf[:0], 0
			}
			h.changed.Broadcast()
			return n, nil
		case h.closed:
			return 0, io.EOF
		case len(b) == 0:
			return 0, nil
		}
		h.changed.Wait()
	}
}

func (h *half) write(b []byte) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.closed:
			return n, net.ErrClosed
		case h.dropped:
			return n, io.ErrClosedPipe
		case h.writeBy.passed:
			return n, os.ErrDeadlineExceeded
		}
		if room := window - (len(h.buf) - h.from); room > 0 {
			if h.from > 0 && len(h.buf)+min(room, len(b)) > cap(h.buf) {
				h.buf, h.from = h.buf[:copy(h.buf, h.buf[h.from:])], 0
			}
			k := min(room, len(b))
			h.buf = append(h.buf, b[:k]...)
			b, n = b[k:], n+k
			h.changed.Broadcast()
		}
		if len(b) == 0 {
			return n, nil
		}
		h.changed.Wait()
	}
}

// end closes the direction, from the reader's end or from the writer's.
func (h *half) end(reader bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if reader {
		h.dropped = true
	} else {
		h.closed = true
	}
	for _, d := range []*deadline{&h.readBy, &h.writeBy} {
		if d.timer != nil {
			d.timer.Stop()
		}
	}
	h.changed.Broadcast()
}

func (h *half) setDeadline(d *deadline, t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.set++
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.passed = false
	if t.IsZero() {
		return
	}
	wait := time.Until(t)
	if wait <= 0 {
		d.passed = true
		h.changed.Broadcast()
		return
	}
	set := d.set
	d.timer = time.AfterFunc(wait, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if d.set == set {
			d.passed = true
			h.changed.Broadcast()
		}
	})
}
