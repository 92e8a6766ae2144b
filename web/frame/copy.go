package frame

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/tube"
)

// ErrStopped says that Options.Stop has ended a stream before its run did.
var ErrStopped = errors.New("frame: the stream was stopped")

// Output is what a stream is written to.
type Output interface {
	io.Writer
	Flush() error
}

// Options of a stream.
type Options struct {
	Format    Format
	KeepAlive time.Duration   // an idle stream gets a comment (SSE) or an empty line (JSONL); 0: none
	Stop      <-chan struct{} // closed when the stream must be broken off
}

// Copy writes what r has, then follows it until its end: everything that waits in one write, a flush when it has caught up.
// It returns nil after the terminal event, ErrStopped, ctx's cause, or the error of a write.
func Copy(ctx context.Context, out Output, run string, r *tube.Reader, o Options) error {
	s := stream{ctx: ctx, out: out, run: run, r: r, stop: o.Stop}
	keepAlive := []byte(":\n")
	switch o.Format {
	case SSE:
		s.frame = AppendSSE
	case JSONL:
		s.frame, keepAlive = AppendJSONL, keepAlive[1:]
	default:
		return fmt.Errorf("frame: %q is no framing of events", o.Format)
	}
	defer r.Leave()

	// All that ends a wait comes through the reader's own channel, but Stop, which is not ours: a select over the channels of
	// a context and a timer is twice the work, for each token. The timer is not touched for an event; when it fires, it is
	// set to what is left of the silence.
	defer context.AfterFunc(ctx, r.Wake)()
	var fired atomic.Bool
	var idle *time.Timer
	if o.KeepAlive > 0 {
		idle = time.AfterFunc(o.KeepAlive, func() { fired.Store(true); r.Wake() })
		defer idle.Stop()
	}
	last := time.Now()
	for {
		wrote, err := s.drain()
		if err != nil {
			return err
		}
		if wrote {
			if err := out.Flush(); err != nil {
				return err
			}
			last = time.Now()
		}
		if r.Ended() {
			return nil
		}
		if fired.Load() {
			fired.Store(false)
			left := o.KeepAlive - time.Since(last)
			if left <= 0 {
				if _, err := out.Write(keepAlive); err != nil {
					return err
				}
				if err := out.Flush(); err != nil {
					return err
				}
				last, left = time.Now(), o.KeepAlive
			}
			idle.Reset(left)
		}
		select {
		case <-r.More():
		case <-o.Stop:
			return ErrStopped
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

type stream struct {
	ctx   context.Context
	out   Output
	run   string
	r     *tube.Reader
	stop  <-chan struct{}
	frame func([]byte, string, tube.Event) []byte
}

// maxWrite is about how much is gathered for one write: more gains nothing, and a peer that reads slowly holds a buffer.
const maxWrite = 64 << 10

// buffers are held only while something is written, so that an idle stream has none.
var buffers = sync.Pool{New: func() any { return new(make([]byte, 0, 2<<10)) }}

// drain writes what waits and says whether there was any. An event is never written in parts, and the stream is broken off only between writes.
func (s *stream) drain() (wrote bool, err error) {
	p := buffers.Get().(*[]byte)
	b := (*p)[:0]
	for e := range s.r.Waiting() {
		b = s.frame(b, s.run, e)
		if len(b) < maxWrite {
			continue
		}
		if _, err = s.out.Write(b); err == nil {
			err = s.broken()
		}
		if err != nil {
			break
		}
		b, wrote = b[:0], true
	}
	if err == nil && len(b) > 0 {
		_, err = s.out.Write(b)
		wrote = true
	}
	if cap(b) <= 2*maxWrite { // one long event must not stay for ever
		*p = b
		buffers.Put(p)
	}
	return wrote, err
}

// broken says why the stream must not go on.
func (s *stream) broken() error {
	select {
	case <-s.stop:
		return ErrStopped
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	default:
		return nil
	}
}
