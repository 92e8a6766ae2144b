package frame

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingserve/lingserve/tube"
)

// Output is what a stream is written to.
type Output interface {
	io.Writer
	Flush() error
}

// Encoder writes events in other words than a framing's own, for clients of other servers. It belongs to one stream.
type Encoder interface {
	// Append appends what the client gets for an event, which may be nothing.
	Append(dst []byte, e tube.Event) []byte
	// Over reports that nothing more follows, although the run may go on.
	Over() bool
}

// Opener is an Encoder that writes something before the first event.
type Opener interface {
	// Open appends it. It is called once, before anything else.
	Open(dst []byte) []byte
}

// Options of a stream.
type Options struct {
	Format    Format
	Encoder   Encoder       // nil: the framing's own
	KeepAlive time.Duration // an idle stream gets a comment (SSE) or an empty line (JSONL); 0: none
	// Wrote is called after each write with the numbers of events and bytes that it had. It may be nil.
	Wrote func(events, bytes int)
}

// Copy writes what r has, then follows it until its end: everything that waits in one write, a flush when it has caught up.
// It returns nil after the terminal event or when the encoder is over, ctx's cause, or the error of a write.
func Copy(ctx context.Context, out Output, run string, r *tube.Reader, o Options) error {
	s := &stream{ctx: ctx, out: out, r: r, encoder: o.Encoder, every: o.KeepAlive, comment: comment, wrote: o.Wrote}
	encoder := plain{AppendSSE, run}
	switch o.Format {
	case SSE:
	case JSONL:
		encoder.append, s.comment = AppendJSONL, comment[1:]
	default:
		return fmt.Errorf("frame: unknown framing of events %q", o.Format)
	}
	if s.encoder == nil {
		s.encoder = encoder
	}
	defer r.Leave()
	defer context.AfterFunc(ctx, r.Wake)()
	if s.every > 0 {
		s.idle = time.AfterFunc(s.every, s.fire)
		defer s.idle.Stop()
	}
	return s.follow()
}

// plain is a framing as an encoder.
type plain struct {
	append func(dst []byte, run string, e tube.Event) []byte
	run    string
}

func (p plain) Append(dst []byte, e tube.Event) []byte { return p.append(dst, p.run, e) }
func (plain) Over() bool                               { return false }

// comment is what an idle stream gets: a whole line in both framings.
var comment = []byte(":\n")

// stream is not on the stack, nor is what Copy does in the beginning: thousands of streams wait at the same time, and a
// goroutine's stack is halved only when less than a quarter of it is used.
type stream struct {
	ctx     context.Context
	out     Output
	r       *tube.Reader
	encoder Encoder
	wrote   func(events, bytes int)

	every   time.Duration // of silence, until there is a comment
	comment []byte
	idle    *time.Timer
	fired   atomic.Bool
	last    time.Time // of the last write
}

func (s *stream) fire() {
	s.fired.Store(true)
	s.r.Wake()
}

// follow writes until the end.
func (s *stream) follow() error {
	s.last = time.Now()
	if o, ok := s.encoder.(Opener); ok {
		if err := s.writeNow(o.Open(nil)); err != nil {
			return err
		}
	}
	for {
		if err := s.write(); err != nil {
			return err
		}
		if s.r.Ended() || s.encoder.Over() {
			return nil
		}
		// All that ends a wait comes through the reader's own channel: a select over those of a context and a timer, too, is
		// twice the work, for each token.
		<-s.r.More()
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
	}
}

// writeNow writes and flushes a text.
func (s *stream) writeNow(text []byte) error {
	if _, err := s.out.Write(text); err != nil {
		return err
	}
	return s.out.Flush()
}

// write writes and flushes what waits, or a comment when it is time for one.
func (s *stream) write() error {
	wrote, err := s.drain()
	if err != nil {
		return err
	}
	if wrote {
		if err := s.out.Flush(); err != nil {
			return err
		}
		s.last = time.Now()
	}
	if !s.fired.Load() {
		return nil
	}
	// The timer is not touched for an event; now it is set to what is left of the silence.
	s.fired.Store(false)
	left := s.every - time.Since(s.last)
	if left <= 0 {
		if err := s.writeNow(s.comment); err != nil {
			return err
		}
		s.last, left = time.Now(), s.every
	}
	s.idle.Reset(left)
	return nil
}

// maxWrite is about how much is gathered for one write: more gains nothing, and a peer that reads slowly holds a buffer.
const maxWrite = 64 << 10

// buffers are held only while something is written, so that an idle stream has none.
var buffers = sync.Pool{New: func() any { return new(make([]byte, 0, 2<<10)) }}

// drain writes what waits and says whether there was any. An event is never written in parts, and the stream is broken off only between writes.
func (s *stream) drain() (wrote bool, err error) {
	p := buffers.Get().(*[]byte)
	b := (*p)[:0]
	events := 0
	for e := range s.r.Waiting() {
		if s.encoder.Over() {
			break
		}
		b = s.encoder.Append(b, e)
		events++
		if len(b) < maxWrite {
			continue
		}
		if err = s.send(b, events); err == nil && s.ctx.Err() != nil {
			err = context.Cause(s.ctx)
		}
		if err != nil {
			break
		}
		b, events, wrote = b[:0], 0, true
	}
	if err == nil && len(b) > 0 {
		err = s.send(b, events)
		wrote = true
	}
	if cap(b) <= 2*maxWrite { // one long event must not stay for ever
		*p = b
		buffers.Put(p)
	}
	return wrote, err
}

// send writes these events.
func (s *stream) send(b []byte, events int) error {
	_, err := s.out.Write(b)
	if err == nil && s.wrote != nil {
		s.wrote(events, len(b))
	}
	return err
}
