package web

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/ling"
	"github.com/lingserve/lingserve/tube"
)

// replayed is a run as a journal has it.
type replayed struct {
	opening
	replay *tube.Replay
	ended  *header // what came of it; nil where that is not known
	// stale says that something of it is missing: what follows cannot be used, until it is written anew.
	stale bool
}

// read reads what a journal has of runs that it has not dropped, those that began first first, and the files. A file that is torn is
// read as far as it is whole.
func (j *journal) read(maxLog int) (runs []*replayed, files []segment, err error) {
	names, err := j.folder.names()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if number, ok := segmentNumber(name); ok {
			files = append(files, segment{number: number})
		}
	}
	slices.SortFunc(files, func(a, b segment) int { return cmp.Compare(a.number, b.number) })
	known := journalReader{maxLog: maxLog, byHandle: map[journalHandle]*replayed{}, byRun: map[string]journalHandle{}}
	for _, s := range files {
		f, err := j.folder.open(segmentName(s.number))
		if err != nil {
			return nil, nil, err
		}
		err = known.file(s.number, f)
		f.Close() // it was only read
		if torn, ok := errors.AsType[*tornError](err); ok {
			j.log.Info("a file of running runs is not whole; a crash can do that", "file", segmentName(s.number), "whole", torn.at, "error", torn.why)
		} else if err != nil {
			return nil, nil, err
		}
	}
	for _, r := range known.byHandle {
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b *replayed) int {
		return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.Run, b.Run))
	})
	return runs, files, nil
}

// tornError says how far a file is whole.
type tornError struct {
	at  int64
	why string
}

func (e *tornError) Error() string { return fmt.Sprintf("not whole behind %d bytes: %s", e.at, e.why) }

// journalHandle is the number of a run in the files of one process.
type journalHandle struct {
	boot   [8]byte
	handle uint64
}

type journalReader struct {
	maxLog   int
	byHandle map[journalHandle]*replayed
	byRun    map[string]journalHandle
}

// file reads a file. A *tornError says that its end is not whole; others are those of the disk.
func (k *journalReader) file(number uint64, r io.Reader) error {
	in := bufio.NewReaderSize(r, 256<<10)
	var at int64
	torn := func(why string) error { return &tornError{at, why} }
	fill := func(into []byte) (bool, error) {
		_, err := io.ReadFull(in, into)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return false, nil
		}
		return err == nil, err
	}
	var head [len(segmentMark) + 8]byte
	if ok, err := fill(head[:]); err != nil {
		return err
	} else if !ok || string(head[:len(segmentMark)]) != segmentMark {
		return torn("it does not begin as one of ours")
	}
	boot := [8]byte(head[len(segmentMark):])
	at = int64(len(head))
	var payload []byte
	for {
		if _, err := in.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		var frame [frameHead]byte
		if ok, err := fill(frame[:]); err != nil {
			return err
		} else if !ok {
			return torn("the head of a frame is cut off")
		}
		length := binary.LittleEndian.Uint32(frame[:])
		if length == 0 || length > maxFrameRead {
			return torn("no frame")
		}
		// What is not there is not made room for: a length may be anything.
		whole := bytes.NewBuffer(payload[:0])
		n, err := io.CopyN(whole, in, int64(length))
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		payload = whole.Bytes()
		if n < int64(length) {
			return torn("a frame is cut off")
		}
		if checksum(boot, number, at, payload) != binary.LittleEndian.Uint32(frame[4:]) {
			return torn("a frame is not what was written")
		}
		if !k.records(boot, payload) {
			return torn("a record of no known form")
		}
		at += frameHead + int64(length)
	}
}

// records takes the records of a frame; false where one is of no known form.
func (k *journalReader) records(boot [8]byte, rest []byte) bool {
	ok := true
	number := func() uint64 {
		v, n := binary.Uvarint(rest)
		if n <= 0 {
			ok = false
			return 0
		}
		rest = rest[n:]
		return v
	}
	text := func() []byte {
		n := number()
		if !ok || n > uint64(len(rest)) {
			ok = false
			return nil
		}
		t := rest[:n:n]
		rest = rest[n:]
		return t
	}
	for len(rest) > 0 {
		kind := rest[0]
		rest = rest[1:]
		h := journalHandle{boot, number()}
		switch r := k.byHandle[h]; kind {
		case recordRun:
			head, base := text(), text()
			if !ok || !k.begin(h, head, base) {
				return false
			}
		case recordPiece:
			p := tube.Piece{First: number(), Offset: int(number() & (1<<31 - 1)), Data: text()}
			if ok && r != nil && !r.stale && r.ended == nil {
				r.stale = r.replay.Piece(p) != nil
			}
		case recordEnd:
			head := text()
			var o header
			if !ok || json.Unmarshal(head, &o) != nil {
				return false
			}
			if r != nil && !r.stale && r.replay.Ended() {
				r.ended = &o
			}
		case recordDrop:
			if ok && r != nil {
				delete(k.byHandle, h)
				delete(k.byRun, r.Run)
			}
		default:
			return false
		}
		if !ok {
			return false
		}
	}
	return true
}

// begin takes the beginning of a run, or of what is written anew of it.
func (k *journalReader) begin(h journalHandle, head, base []byte) bool {
	r := new(replayed)
	if json.Unmarshal(head, &r.opening) != nil || !wellFormed(r.Run) || r.From > lastNumber {
		return false
	}
	o := tubeOptions(k.maxLog)
	o.From = r.From
	r.replay = tube.NewReplay(r.Run, o)
	if len(base) > 0 && r.replay.Base(base) != nil {
		return false
	}
	if before, ok := k.byRun[r.Run]; ok {
		delete(k.byHandle, before) // of an earlier process, or the same again
	}
	k.byHandle[h], k.byRun[r.Run] = r, h
	return true
}

func isOver(t *tube.Tube) bool {
	select {
	case <-t.Ended():
		return true
	default:
		return false
	}
}

// cutMessage is what clients are told about a run that the end of the server has cut off.
const cutMessage = "the server ended in the middle of this run; what it had made until then is kept"

// epoch is how many numbers of events each attempt of a run has, and its end after a crash: more than any sends, so that no
// number ever means two events, whatever was seen before it could be written down. They stay far below 2⁵³.
const epoch = 1 << 32

// nextEpoch is the number of the first event that nobody can have seen.
func nextEpoch(t *tube.Tube) uint64 { return (t.Len()/epoch + 1) * epoch }

// run makes of it a run that has ended, cutting it off where it has not.
func (p *replayed) run(message string) *run {
	t := p.replay.Tube()
	r := &run{
		id: p.Run, of: p.subject, owner: p.Owner, session: p.Session, tube: t, keyed: p.Keyed, began: p.Began, done: make(chan struct{}),
	}
	if !isOver(t) {
		t.Leap(nextEpoch(t))
		if p.Keyed {
			message += "; start it again under another Idempotency-Key"
		}
		data, _ := json.Marshal(ling.ErrorData{Code: codeInternal, Message: message, Retryable: true, Fatal: true})
		_, _ = t.Send(tube.Event{Kind: tube.Named, Name: "error", Value: data}) // cannot fail: it goes on, and this is JSON
		_ = t.Close(statusInterrupted)
	}
	if p.ended != nil {
		r.outcome = p.ended.outcome
	} else {
		r.outcome = outcomeFrom(t)
		r.Session = p.Session
	}
	close(r.done)
	return r
}

// status is that of one that has ended.
func (p *replayed) status() string {
	if p.ended != nil {
		return p.ended.Status
	}
	return outcomeFrom(p.replay.Tube()).Status
}

// outcomeFrom puts together what the events of a run say of it.
func outcomeFrom(t *tube.Tube) outcome {
	var o outcome
	r := t.NewReader(0)
	for e := range r.Waiting() {
		if e.Kind != tube.Named {
			continue
		}
		switch e.Name {
		case "error":
			var data ling.ErrorData
			if json.Unmarshal(e.Value, &data) == nil {
				o.Errors = append(o.Errors, data)
			}
		case "usage":
			var data struct {
				Bot, Model string
				adapter.Usage
			}
			if json.Unmarshal(e.Value, &data) != nil {
				continue
			}
			if data.Usage != (adapter.Usage{}) {
				if o.Usage == nil {
					o.Usage = map[string]adapter.Usage{}
				}
				u := o.Usage[data.Bot]
				u.PromptTokens += data.PromptTokens
				u.CompletionTokens += data.CompletionTokens
				u.TotalTokens += data.TotalTokens
				o.Usage[data.Bot] = u
			}
			if data.Model != "" && !slices.Contains(o.Models[data.Bot], data.Model) {
				if o.Models == nil {
					o.Models = map[string][]string{}
				}
				o.Models[data.Bot] = append(o.Models[data.Bot], data.Model)
			}
		case "finished":
			var data struct{ Status string }
			_ = json.Unmarshal(e.Value, &data) // it is ours
			o.Status = data.Status
		case "canceled":
			var data struct{ Reason string }
			_ = json.Unmarshal(e.Value, &data)
			o.Status, o.Reason = statusCanceled, data.Reason
		}
	}
	return o
}
