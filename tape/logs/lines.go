package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/internal/crcline"
	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/store/file"
	"github.com/lingserve/lingserve/tape"
)

// lines is the form of tapes in files: <tape>.jsonl has the line of each entry, and <tape>.session what a list shows and what the entries of
// an import do not say. It implements [file.Codec].
type lines struct{}

var _ file.Codec = lines{}

// Members that a line has behind those of its entry, in this order; its checksum is the last.
const (
	// after is the id of the entry before, if that is not the id below this one.
	after = `,"after":`
	// more is in each line of a batch but the last.
	more = `,"more":true`
)

// entryStart is what each line begins with.
var (
	entryStart = []byte(`{"id":`)
	kindMember = []byte(`,"kind":"`)
	anchorKind = []byte(tape.KindAnchor + `"`)
)

var errSum = errors.New("its checksum does not match")

// End implements [file.Codec].
func (lines) End() string { return ".jsonl" }

// SideEnd implements [file.Codec].
func (lines) SideEnd() string { return ".session" }

// File implements [file.Codec]: it is the name of the tape.
func (lines) File(key string) (string, bool) {
	parts := strings.Split(key, "/")
	if len(parts) > 1 && parts[1] != forkPart || len(parts) == 2 {
		return "", false
	}
	name := parts[0]
	for _, part := range parts[min(2, len(parts)):] {
		name += forkMark + part
	}
	return name, keyOf(name) == key && tape.CheckName(name) == nil
}

// Name implements [file.Codec].
func (lines) Name(name string) (string, bool) {
	return keyOf(name), tape.CheckName(name) == nil
}

// AppendLine implements [file.Codec].
func (lines) AppendLine(dst []byte, e store.Entry, last uint64, goesOn bool) []byte {
	start := len(dst)
	dst = append(dst, e.Data[:len(e.Data)-1]...)
	if e.N != last+1 {
		dst = strconv.AppendUint(append(dst, after...), last, 10)
	}
	if goesOn {
		dst = append(dst, more...)
	}
	return append(crcline.Append(dst, start), '\n')
}

// ParseLine implements [file.Codec]. The first version wrote no checksums.
func (lines) ParseLine(text []byte) (l file.Line, err error) {
	body, summed, matches := crcline.Cut(text)
	l.Before = -1
	switch {
	case !summed:
		var object bool
		if body, object = bytes.CutSuffix(text, []byte("}")); !object {
			return l, errors.New("it is no object")
		}
	case !matches:
		return l, errSum
	}
	body, l.More = bytes.CutSuffix(body, []byte(more))
	given := false
	if summed {
		body, l.Before, given = cutAfter(body)
	}
	l.Data = text[: len(body)+1 : len(body)+1]
	text[len(body)] = '}'                                     // in place of the next member
	if l.N, l.Mark = cutNumber(l.Data); !summed || l.N == 0 { // else it is as it was written
		e, err := tape.ParseEntry(l.Data)
		if err != nil {
			return l, err
		}
		l.N, l.Mark = uint64(e.ID), e.Kind == tape.KindAnchor
	}
	if summed && !given {
		l.Before = int64(l.N) - 1
	}
	return l, nil
}

// cutNumber reads the beginning of an entry in the form that AppendJSON gives it; 0: it has another.
func cutNumber(entry []byte) (n uint64, anchor bool) {
	rest, ok := bytes.CutPrefix(entry, entryStart)
	for ok && len(rest) > 0 && '0' <= rest[0] && rest[0] <= '9' && n < 1<<59 {
		n, rest = n*10+uint64(rest[0]-'0'), rest[1:]
	}
	if !bytes.HasPrefix(rest, kindMember) {
		return 0, false
	}
	return n, bytes.HasPrefix(rest[len(kindMember):], anchorKind)
}

// cutAfter takes the member after from the end of a line.
func cutAfter(body []byte) (rest []byte, id int64, ok bool) {
	at := len(body)
	for at > 0 && '0' <= body[at-1] && body[at-1] <= '9' {
		at--
	}
	rest, ok = bytes.CutSuffix(body[:at], []byte(after))
	if !ok {
		return body, -1, false
	}
	id, err := strconv.ParseInt(string(body[at:]), 10, 64)
	return rest, id, err == nil
}

// maxTried bounds how many parts of a damaged text are tried: each costs a checksum.
const maxTried = 64

// SplitLine implements [file.Codec]. A text is one line, unless a line feed was damaged: a line at the beginning or the end of the text whose
// checksum matches is then a line of its own.
func (lines) SplitLine(text []byte) int {
	whole := bytes.TrimSuffix(text, []byte("\n"))
	_, summed, matches := crcline.Cut(whole)
	if matches || !bytes.Contains(whole, []byte(crcline.Mark)) {
		return len(text)
	}
	if bytes.HasPrefix(whole, entryStart) {
		for end, tried := 0, 0; tried < maxTried; tried++ {
			i := bytes.Index(whole[end:], []byte(crcline.Mark))
			if i < 0 {
				break
			}
			end += i
			if want, ok := crcline.Read(whole[end:]); ok && crcline.Sum(whole[:end]) == want {
				return end + crcline.Size
			}
			end += len(crcline.Mark)
		}
	}
	if summed {
		body := whole[:len(whole)-crcline.Size]
		want, _ := crcline.Read(whole[len(body):])
		for start, tried := 0, 0; start < len(body) && tried < maxTried; tried++ {
			i := bytes.Index(body[start+1:], entryStart)
			if i < 0 {
				break
			}
			start += 1 + i
			if crcline.Sum(body[start:]) == want {
				return start
			}
		}
	}
	return len(text)
}

// side is what the file of a session has.
type side struct {
	Session   string `json:"session"`
	Workspace string `json:"workspace"`
	Title     string `json:"title"`
	Agent     string `json:"agent,omitempty"`
}

// AppendSide implements [file.Codec]: the beginning of the head, which has these members and the name of the tape.
func (lines) AppendSide(dst []byte, _ string, text []byte) []byte {
	i := bytes.Index(text, []byte(`,"`+createdMember+`":`)) // within a string, quotes are escaped
	if i < 0 {
		return dst
	}
	return append(append(dst, text[:i]...), "}\n"...)
}

// Begin implements [file.Codec]. The name of the tape shows whether the side file is of this tape.
func (lines) Begin(key string, text []byte) (label string, empty []byte) {
	name, _ := lines{}.File(key)
	h := head{Tape: name}
	var s side
	if json.Unmarshal(text, &s) == nil && tape.Name(s.Workspace, s.Session) == name {
		h.Session, h.Workspace = s.Session, s.Workspace
	}
	empty, _ = json.Marshal(h)
	return groupOf(h.Session), empty
}

// Rebuild implements [file.Codec].
func (lines) Rebuild(text []byte) file.Head {
	var h head
	_ = json.Unmarshal(text, &h) // the engine has compared its checksum
	return &rebuilt{now: *h.state()}
}

// rebuilt is a head that is made again. It implements [file.Head].
type rebuilt struct{ now, kept state }

func (r *rebuilt) Add(raw store.Entry, damage error) (at time.Time) {
	i := &r.now.info
	e, err := tape.ParseWritten(raw.Data)
	if damage != nil || err != nil {
		i.Unreadable++
		return at
	}
	session, workspace := i.Session, i.Workspace
	i.Add(e)
	// The entries of an import say whose they were before.
	if (i.Session != session || i.Workspace != workspace) && session != "" && tape.Name(workspace, session) == i.Tape {
		i.Session, i.Workspace = session, workspace
	}
	return e.Date
}

func (r *rebuilt) Keep() { r.kept = r.now }

func (r *rebuilt) Text() []byte {
	text, _ := r.kept.encode() // nil, if it is longer than the writer could have written it
	return text
}
