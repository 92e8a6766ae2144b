package nats

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/store"
)

// The tapes of older versions are in a stream of the same name, with other headers and lines of JSON as data. They are read here; what is
// appended to them is written as to other logs. A blob was a message of its own.
const (
	tapesSpace  = "tapes"
	tapesStream = "TAPES"

	headerTape      = "Tape"       // of the last message of a batch
	headerTapeBatch = "Tape-Batch" // "<id> <number> <of>": which message of a batch it is, from 1
	headerTapeBlob  = "Tape-Blob"
	forkToken       = "f"
)

// tapeBefore is the header of a tape. Its fields up to By are those of the head of a tape's log.
type tapeBefore struct {
	State     string        `json:"state,omitempty"`
	Tape      string        `json:"tape"`
	Session   string        `json:"session,omitempty"`
	Workspace string        `json:"workspace,omitempty"`
	Title     string        `json:"title,omitempty"`
	Agent     string        `json:"agent,omitempty"`
	Created   int64         `json:"created,omitempty"`
	Updated   int64         `json:"updated,omitempty"`
	Entries   int64         `json:"entries,omitempty"`
	LastID    int64         `json:"last,omitempty"`
	Anchors   int64         `json:"anchors,omitempty"`
	Anchor    *anchorBefore `json:"anchor,omitempty"`
	Epoch     uint64        `json:"epoch,omitempty"`
	By        string        `json:"by,omitempty"`
}

type anchorBefore struct {
	ID   int64  `json:"id"`
	Name string `json:"name,omitempty"`
	Date int64  `json:"date,omitempty"`
}

// readBefore reads the headers of a tape's message.
func readBefore(m *jetstream.RawStreamMsg) (h *logHead, p partHead, err error) {
	p.old = true
	if fields := strings.Fields(m.Header.Get(headerTapeBatch)); len(fields) == 3 {
		p.number, _ = strconv.ParseUint(fields[1], 10, 64)
		p.of, _ = strconv.ParseUint(fields[2], 10, 64)
	}
	text := m.Header.Get(headerTape)
	if text == "" {
		if p.number == 0 {
			err = store.ErrDamaged
		}
		return nil, p, err
	}
	var r struct {
		tapeBefore
		Bytes      uint64 `json:"bytes"`
		MarkBefore uint64 `json:"before"`
		Born       uint64 `json:"born"`
		Page       string `json:"page"`
		Prev       uint64 `json:"prev"`
		First      uint64 `json:"first"`
		Messages   uint64 `json:"n"`
		At         struct {
			At uint64 `json:"at"`
		} `json:"anchor"`
	}
	if json.Unmarshal([]byte(text), &r) != nil || json.Unmarshal([]byte(text), &r.tapeBefore) != nil {
		return nil, p, store.ErrDamaged
	}
	h = &logHead{
		born: r.Born, created: r.Created, updated: r.Updated, last: uint64(r.LastID), entries: uint64(r.Entries), bytes: r.Bytes,
		from: r.First, parts: r.Messages, size: sizeBefore, markAt: r.At.At, markBefore: r.MarkBefore, pageBefore: r.Prev, old: true,
		label: r.Session[:strings.IndexByte(r.Session, '#')+1],
	}
	switch {
	case r.State == "erased":
		h.state = stateDeleted
	case r.Entries > 0:
		h.first = 1
	}
	if r.Anchor != nil {
		h.mark = uint64(r.Anchor.ID)
	}
	h.page.old = true
	if h.page.raw, err = base64.RawStdEncoding.DecodeString(r.Page); err != nil {
		return nil, p, store.ErrDamaged
	}
	h.head, err = json.Marshal(r.tapeBefore)
	return h, p, err
}

// lineBefore reads the number of an entry, and whether it is an anchor.
func lineBefore(line []byte) (e store.Entry, err error) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"id":`))
	end := bytes.IndexByte(rest, ',')
	if !ok || end < 0 {
		return e, store.ErrDamaged
	}
	n, err := strconv.ParseUint(string(rest[:end]), 10, 64)
	if err != nil || !json.Valid(line) {
		return e, store.ErrDamaged
	}
	return store.Entry{N: n, Data: bytes.Clone(line), Mark: bytes.HasPrefix(rest[end:], []byte(`,"kind":"anchor"`))}, nil
}

// takeBefore takes the next message of a tape. Behind one that is lost the rest of its batch is lost, too.
func (rd *reader) takeBefore(m *jetstream.RawStreamMsg, p partHead) error {
	if rd.lost && p.number > 1 {
		return nil
	}
	for data := m.Data; len(data) > 0; {
		line, behind, whole := bytes.Cut(data, []byte("\n"))
		rd.rest = append(rd.rest, line...)
		if !whole {
			break
		}
		data = behind
		e, err := lineBefore(rd.rest)
		if rd.rest = rd.rest[:0]; err != nil {
			e.N, err = rd.last+1, fmt.Errorf("log %q: entry %d: %w", rd.name, rd.last+1, err)
		} else if rd.lost {
			if err := rd.behind(e.N - 1); err != nil {
				return err
			}
		}
		if e.N >= rd.hi {
			return errEnough
		}
		rd.lost, rd.last = false, max(rd.last, e.N)
		if err := rd.emit(e, err); err != nil {
			return err
		}
	}
	return nil
}

// takeBackBefore takes the message of a tape before the one that was taken last. A batch is read when its first message is there.
func (rd *reader) takeBackBefore(m *jetstream.RawStreamMsg, p partHead) error {
	rd.restBack = append(rd.restBack, m)
	if p.number > 1 {
		return nil
	}
	var entries []store.Entry
	var errs []error
	batch := reader{ctx: rd.ctx, l: rd.l, name: rd.name, h: rd.h, lo: 1, hi: rd.h.last + 1}
	batch.yield = func(e store.Entry, err error) bool {
		entries, errs = append(entries, e), append(errs, err)
		return true
	}
	for i := range rd.restBack {
		if err := batch.takeBefore(rd.restBack[len(rd.restBack)-1-i], partHead{number: 1}); err != nil {
			return err
		}
	}
	rd.restBack = nil
	if len(entries) == 0 {
		return nil
	}
	if err := rd.before(entries[len(entries)-1].N); rd.lost && err != nil {
		return err
	}
	for i := range entries {
		e := entries[len(entries)-1-i]
		if e.N < rd.lo {
			return errEnough
		}
		if err := rd.emit(e, errs[len(entries)-1-i]); err != nil {
			return err
		}
	}
	return nil
}

// tokens are those of a subject for a log. Tapes are where older versions have put them: a fork of a fork is below that.
func (l *Log) tokens(name string) string {
	parts := strings.SplitN(name, "/", 4)
	if !l.before || len(parts) < 4 || parts[1] != forkToken {
		return tokens(name)
	}
	text := tokens(strings.Join(parts[:3], "/"))
	for part := range strings.SplitSeq(parts[3], ".") {
		text += "." + forkToken + "." + cluster.Token(part)
	}
	return text
}

// untokens undoes tokens.
func (l *Log) untokens(text string) string {
	parts := strings.Split(untokens(text), "/")
	if !l.before || len(parts) < 5 || parts[1] != forkToken {
		return strings.Join(parts, "/")
	}
	name := strings.Join(parts[:3], "/")
	for i, part := range parts[3:] {
		switch {
		case i%2 == 0 && part != forkToken:
			return ""
		case i == 1:
			name += "/" + part
		case i%2 == 1:
			name += "." + part
		}
	}
	return name
}

// blobBefore is a blob of an older version: the message that says where its parts are, or has all of it.
type blobBefore struct {
	Size  int64    `json:"size"`
	Part  int64    `json:"part,omitempty"`
	Parts []uint64 `json:"parts,omitempty"`

	data []byte
}

// blobPart is the size of the entries that such a blob is read as, but for the last.
const blobPart = 512 << 10

var blobName = regexp.MustCompile(`^(.+)/b/[0-9a-f]{64}$`)

// blobBefore looks for a blob of an older version, if there is no log of a name.
func (l *Log) blobBefore(ctx context.Context, name string) (*logHead, error) {
	if !l.before || !blobName.MatchString(name) {
		return nil, nil
	}
	subject := l.prefix + l.tokens(name)
	m, err := l.ask(ctx, getRequest{Last: subject})
	if err == nil && m == nil {
		var last *client.Msg
		if last, err = l.barrier.Last(ctx, subject); err == nil && last != nil {
			m = directMsg(last)
		}
	}
	if err != nil || m == nil {
		return nil, err
	}
	b := &blobBefore{data: m.Data}
	if err := json.Unmarshal([]byte(m.Header.Get(headerTapeBlob)), b); err != nil || b.Size < 0 || len(b.Parts) > 0 && b.Part < 1 {
		return nil, fmt.Errorf("log %q: message %d: %w", name, m.Sequence, store.ErrDamaged)
	}
	n := uint64(max(1, (b.Size+blobPart-1)/blobPart))
	return &logHead{seq: m.Sequence, tail: m.Sequence, first: 1, last: n, entries: n, bytes: uint64(b.Size), blob: b, old: true}, nil
}

// readBlob reads a blob of an older version as entries.
func (rd *reader) readBlob() error {
	b := rd.h.blob
	first, step := rd.lo, uint64(1)
	if rd.r.Newest {
		first, step = rd.hi-1, ^uint64(0)
	}
	for n := first; n >= rd.lo && n < rd.hi; n += step {
		from := int64(n-1) * blobPart
		data, err := rd.blobRange(b, from, min(from+blobPart, b.Size))
		if err != nil {
			return err
		}
		if err := rd.emit(store.Entry{N: n, Data: data}, nil); err != nil {
			return err
		}
	}
	return nil
}

// blobRange returns some bytes of a blob.
func (rd *reader) blobRange(b *blobBefore, from, to int64) (data []byte, err error) {
	damaged := fmt.Errorf("log %q: %w", rd.name, store.ErrDamaged)
	if len(b.Parts) == 0 {
		if int64(len(b.data)) != b.Size {
			return nil, damaged
		}
		return b.data[from:to:to], nil
	}
	for i := from / b.Part; i*b.Part < to; i++ {
		if i >= int64(len(b.Parts)) {
			return nil, damaged
		}
		found, err := rd.l.fetch(rd.ctx, "", []uint64{b.Parts[i]})
		if err != nil {
			return nil, err
		}
		if found[0] == nil {
			return nil, fmt.Errorf("log %q: %w", rd.name, store.ErrDeleted)
		}
		part, begin := found[0].Data, i*b.Part
		if low, high := max(begin, from), min(begin+int64(len(part)), to); low < high {
			data = append(data, part[low-begin:high-begin]...)
		}
	}
	if int64(len(data)) != to-from {
		return nil, damaged
	}
	return data, nil
}
