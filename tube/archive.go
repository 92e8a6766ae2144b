package tube

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// An archive is a tube that has ended, as JSON Lines:
//
//	{"archive":"lingserve run","version":1,"run":"…","events":N}
//	{"base":B,"document":…,"reserved":{…}}                 where events below B have left the log: what they fold to
//	{"base":B,"document":…,"reserved":{…},"hidden":true}   the same with hidden events, where there were any
//	{"n":0,"event":"started","data":{…}}                   below B, only those that were kept
//	{"n":1,"uri":"a","delta":"x","hidden":true}            from B on, every event
//	{"n":N-1,"event":"finished","data":{…}}                always the last line
const (
	archiveMark    = "lingserve run"
	archiveVersion = 1
	// maxArchiveLine is more than a document may take; a longer line is not ours.
	maxArchiveLine = 256 << 20
)

// ErrRunning says that a tube has not ended yet.
var ErrRunning = errors.New("tube: the run has not ended")

// ErrArchive says that what Restore was given is not an archive, or only a part of one.
var ErrArchive = errors.New("tube: incomplete archive of a run")

// WriteTo writes a tube that has ended, for Restore to read. A tube that has not gives [ErrRunning].
func (t *Tube) WriteTo(w io.Writer) (int64, error) {
	f := &t.folded
	f.mu.Lock() // nothing leaves the log meanwhile
	defer f.mu.Unlock()
	t.mu.Lock()
	l, ended := t.log, t.ended && t.sent.Load() > t.terminal
	t.mu.Unlock()
	if !ended {
		return 0, ErrRunning
	}

	out := archiver{w: w}
	out.line = append(out.line, `{"archive":"`+archiveMark+`","version":`...)
	out.line = strconv.AppendInt(out.line, archiveVersion, 10)
	out.line = append(out.line, `,"run":`...)
	out.line = appendString(out.line, t.run)
	out.line = append(out.line, `,"events":`...)
	out.line = strconv.AppendUint(out.line, l.next, 10)
	out.end(false)

	// The documents may have been folded further than the log's beginning; they cannot go back.
	base := l.begin()
	if base > 0 {
		base = f.at.n
		out.base(base, f.document(false), false)
		if f.all != nil {
			out.base(base, f.all, true)
		}
		for _, e := range f.kept {
			out.event(e)
		}
	}
	at := cursor{seq: l.seq, n: l.begin()}
	for {
		data, _ := l.view(&at)
		if data == nil {
			break
		}
		for at.off < len(data) {
			if e, _ := at.read(data); e.N >= base || e.Kind >= Done {
				out.event(e)
			}
		}
	}
	out.flush()
	return out.n, out.err
}

type archiver struct {
	w    io.Writer
	line []byte
	n    int64
	err  error
}

func (a *archiver) base(n uint64, d Document, hidden bool) {
	a.line = append(a.line, `{"base":`...)
	a.line = strconv.AppendUint(a.line, n, 10)
	a.line = append(a.line, `,"document":`...)
	a.line = d.AppendJSON(a.line)
	a.line = append(a.line, `,"reserved":`...)
	a.line = d.AppendReserved(a.line)
	a.end(hidden)
}

func (a *archiver) event(e Event) {
	a.line = append(a.line, `{"n":`...)
	a.line = strconv.AppendUint(a.line, e.N, 10)
	a.line = append(a.line, ',')
	a.line = e.AppendMembers(a.line)
	a.end(e.Hidden)
}

func (a *archiver) end(hidden bool) {
	if hidden {
		a.line = append(a.line, `,"hidden":true`...)
	}
	a.line = append(a.line, "}\n"...)
	if len(a.line) >= maxBlock {
		a.flush()
	}
}

func (a *archiver) flush() {
	if a.err == nil && len(a.line) > 0 {
		var n int
		n, a.err = a.w.Write(a.line)
		a.n += int64(n)
	}
	a.line = a.line[:0]
}

// archived is a line of an archive, of any form.
type archived struct {
	Archive string
	Version int
	Run     string
	Events  uint64

	Base     *uint64
	Document json.RawMessage
	Reserved json.RawMessage

	N      *uint64
	URI    *string
	Delta  json.RawMessage
	Done   bool
	Event  string
	Data   json.RawMessage
	Hidden bool
}

// Restore reads what WriteTo has written: a tube that has ended. Where run is not empty the archive must be that run's.
// Input that is foreign, cut off or changed gives an [ErrArchive] that says the line.
func Restore(run string, r io.Reader, o *Options) (*Tube, error) {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 4096), maxArchiveLine)
	n := 0
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: line %d: %w", ErrArchive, n, fmt.Errorf(format, args...))
	}
	read := func() (*archived, error) {
		n++
		more, a := in.Scan(), new(archived)
		bad := json.Unmarshal(in.Bytes(), a)
		switch err := in.Err(); {
		case more && bad == nil:
			return a, nil
		case errors.Is(err, bufio.ErrTooLong):
			return nil, fail("longer than %d bytes", maxArchiveLine)
		case err != nil: // the line may be what could be read of it
			return nil, fmt.Errorf("tube: read archive: %w", err)
		case !more:
			return nil, fail("the archive is cut off")
		}
		return nil, fail("%w", bad)
	}

	head, err := read()
	switch {
	case err != nil:
		return nil, err
	case head.Archive != archiveMark:
		return nil, fail(`expected {"archive":%q,…}`, archiveMark)
	case head.Version != archiveVersion:
		return nil, fail("version %d; this program reads version %d", head.Version, archiveVersion)
	case run != "" && head.Run != run:
		return nil, fail("it is another run's archive")
	case head.Events == 0:
		return nil, fail("a run without events")
	}
	t := New(head.Run, unheld(o))
	for t.log.next < head.Events {
		a, err := read()
		if err != nil {
			return nil, err
		}
		if err := t.restore(a, head.Events); err != nil {
			return nil, fail("%w", err)
		}
	}
	if n++; in.Scan() {
		return nil, fail("data follows the end")
	} else if err := in.Err(); err != nil {
		return nil, fmt.Errorf("tube: read archive: %w", err)
	}
	t.account()
	return t, nil
}

// unheld returns o for a tube that nobody writes to.
func unheld(o *Options) *Options {
	if o == nil || !o.Held {
		return o
	}
	c := *o
	c.Held = false
	return &c
}

// unknown is how many events a run has that goes on.
const unknown = math.MaxUint64

// restore takes a line of an archive of so many events.
func (t *Tube) restore(a *archived, events uint64) error {
	f := &t.folded
	if a.Base != nil {
		return t.restoreBase(a, events)
	}
	if a.N == nil {
		return errors.New("expected an event or a base")
	}
	e := Event{N: *a.N, Hidden: a.Hidden}
	switch {
	case a.Event != "" && a.Data != nil:
		e.Kind, e.Name, e.Value = Named, a.Event, a.Data
	case a.URI != nil && a.Done:
		e.Kind, e.URI = Done, []byte(*a.URI)
	case a.URI != nil && a.Delta != nil:
		e.Kind, e.URI, e.Value = Set, []byte(*a.URI), a.Delta
	default:
		return errors.New("an invalid event")
	}
	if err := check(&e); err != nil {
		return err
	}
	if e.Terminal() != (e.N == events-1) && events != unknown {
		return fmt.Errorf("event %d of %d is %q: only the last one ends a run", e.N, events, e.Name)
	}
	if e.N < f.at.n && t.log.next == f.at.n && len(t.log.blocks) == 0 {
		if last := len(f.kept) - 1; e.Kind < Done || last >= 0 && f.kept[last].N >= e.N {
			return fmt.Errorf("event %d was not expected before %d", e.N, f.at.n)
		}
		e.URI, e.Value = bytes.Clone(e.URI), bytes.Clone(e.Value)
		f.kept = append(f.kept, e)
		f.bytes += keptSize(e)
		return nil
	}
	if e.N != t.log.next {
		return fmt.Errorf("event %d in place of %d", e.N, t.log.next)
	}
	_, size, err := t.append(&e, e.Terminal())
	if size > t.max {
		t.trim(size)
	}
	return err
}

func (t *Tube) restoreBase(a *archived, events uint64) error {
	f := &t.folded
	first := f.visible == nil && t.log.next == t.from && *a.Base >= t.from
	second := a.Hidden && f.visible != nil && f.all == nil && f.at.n == *a.Base
	if len(t.log.blocks) > 0 || len(f.kept) > 0 || !first && !second || first && a.Hidden || *a.Base == 0 || *a.Base >= events {
		return errors.New("a base that was not expected")
	}
	d := f.make()
	put := func(uri string, value []byte) error {
		e := Event{Kind: Set, URI: []byte(uri), Value: value}
		if err := check(&e); err != nil {
			return err
		}
		if e.Kind == Append {
			return d.Append(e.URI, e.Value)
		}
		return d.Set(e.URI, e.Value)
	}
	if err := put("", a.Document); err != nil {
		return err
	}
	for uri, value := range members(a.Reserved) {
		if err := put(uri, value); err != nil {
			return err
		}
	}
	if a.Hidden {
		f.all = d
		return nil
	}
	f.visible, f.rooted = d, true
	f.at.n, t.log.next = *a.Base, *a.Base
	t.sent.Store(*a.Base)
	return nil
}
