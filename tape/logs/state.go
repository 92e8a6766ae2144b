package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lingserve/lingserve/store"
	"github.com/lingserve/lingserve/tape"
)

const (
	forkMark = "." // in the name of a tape, between the parent and the fork

	// Parts of a log's name, behind that of the session's tape.
	forkPart = "f"
	blobPart = "b"
)

// keyOf is the name of a tape's log. A fork is below the session's tape, a fork of that fork below the fork; forks within those are beside
// them, because a name has four parts.
func keyOf(name string) string {
	if !strings.Contains(name, forkMark) {
		return store.KeyPart(name)
	}
	parts := strings.SplitN(name, forkMark, 3)
	for i, part := range parts {
		parts[i] = store.KeyPart(part)
	}
	return strings.Join(slices.Insert(parts, 1, forkPart), "/")
}

// state is what a tape is at one revision.
type state struct {
	rev   store.Rev
	key   string
	first uint64 // id of the first entry
	head  []byte // that it was read from, or is written as
	info  tape.Info
	epoch epoch
	// importing: the entries are those of an import that has not ended, and there is no tape yet.
	importing bool
}

func (st *state) exists() bool { return st.rev != store.New && !st.importing }

// head is the JSON text of a log's head.
type head struct {
	State      string  `json:"state,omitempty"` // "" or statePending
	Tape       string  `json:"tape"`
	Session    string  `json:"session,omitempty"`
	Workspace  string  `json:"workspace,omitempty"`
	Title      string  `json:"title,omitempty"`
	Agent      string  `json:"agent,omitempty"`
	Created    int64   `json:"created,omitempty"` // µs since 1970, as all times
	Updated    int64   `json:"updated,omitempty"`
	Entries    int64   `json:"entries,omitempty"`
	LastID     int64   `json:"last,omitempty"`
	Anchors    int64   `json:"anchors,omitempty"`
	Anchor     *anchor `json:"anchor,omitempty"` // the last one
	Unreadable int64   `json:"unreadable,omitempty"`

	// Epoch is that of the newest lease, and By the replica that took it.
	Epoch uint64 `json:"epoch,omitempty"`
	By    string `json:"by,omitempty"`
}

type anchor struct {
	ID      int64  `json:"id"`
	Name    string `json:"name,omitempty"`
	Date    int64  `json:"date,omitempty"`
	Unnamed bool   `json:"unnamed,omitempty"` // the head has no room for the name
}

// statePending is the state of an import that has not ended.
const statePending = "pending"

func date(micro int64) time.Time { return time.UnixMicro(micro).UTC() }

// encode returns the head of a log: the JSON text of a [head], in the order of its fields.
func (st *state) encode() ([]byte, error) {
	text := st.appendHead(make([]byte, 0, 384), false)
	if len(text) > store.MaxHead && st.info.Anchors > 0 {
		text = st.appendHead(text[:0], true)
	}
	if len(text) > store.MaxHead {
		return nil, fmt.Errorf("%w: the session's id and workspace have %d bytes as JSON; expected at most %d", tape.ErrTooLarge, len(text), store.MaxHead)
	}
	return text, nil
}

// appendHead is written by hand because every append needs it.
func (st *state) appendHead(dst []byte, unnamed bool) []byte {
	i := &st.info
	dst = append(dst, '{')
	if st.importing {
		dst = appendText(dst, "state", statePending)
	}
	dst = appendText(dst, "tape", i.Tape)
	dst = appendText(dst, "session", i.Session)
	dst = appendText(dst, "workspace", i.Workspace)
	dst = appendText(dst, "title", i.Title)
	dst = appendText(dst, "agent", i.Agent)
	dst = appendNumber(dst, createdMember, i.Created.UnixMicro())
	dst = appendNumber(dst, "updated", i.Updated.UnixMicro())
	dst = appendNumber(dst, "entries", i.Entries)
	dst = appendNumber(dst, "last", i.LastID)
	dst = appendNumber(dst, "anchors", i.Anchors)
	if i.Anchors > 0 {
		dst = appendNumber(append(dst, `,"anchor":{`...), "id", i.LastAnchor.ID)
		if unnamed {
			dst = append(dst, `,"unnamed":true`...)
		} else {
			dst = appendText(dst, "name", i.LastAnchor.Name)
		}
		dst = append(appendNumber(dst, "date", i.LastAnchor.Date.UnixMicro()), '}')
	}
	if i.Unreadable > 0 {
		dst = appendNumber(dst, "unreadable", i.Unreadable)
	}
	if st.epoch.number > 0 {
		dst = appendText(strconv.AppendUint(append(dst, `,"epoch":`...), st.epoch.number, 10), "by", st.epoch.replica)
	}
	return append(dst, '}')
}

// createdMember is the first member behind those that a list shows as text.
const createdMember = "created"

func appendName(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(append(append(dst, '"'), name...), `":`...)
}

func appendNumber(dst []byte, name string, n int64) []byte {
	return strconv.AppendInt(appendName(dst, name), n, 10)
}

// appendText appends a member that is text, unless that is empty.
func appendText(dst []byte, name, text string) []byte {
	if text == "" {
		return dst
	}
	dst = appendName(dst, name)
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			raw, _ := json.Marshal(text) // strings have a JSON form
			return append(dst, raw...)
		}
	}
	return append(append(append(dst, '"'), text...), '"')
}

// state is what a head says.
func (h *head) state() *state {
	st := &state{epoch: epoch{h.Epoch, h.By}, importing: h.State == statePending, info: tape.Info{
		Tape: h.Tape, Session: h.Session, Workspace: h.Workspace, Title: h.Title, Agent: h.Agent, Created: date(h.Created), Updated: date(h.Updated),
		Entries: h.Entries, LastID: h.LastID, Anchors: h.Anchors, Unreadable: h.Unreadable,
	}}
	if a := h.Anchor; a != nil {
		st.info.LastAnchor = tape.AnchorRef{ID: a.ID, Name: a.Name, Date: date(a.Date)}
	}
	return st
}

// stateOf reads the head of a log.
func (s *Store) stateOf(ctx context.Context, name string, in store.Info) (*state, error) {
	if in.Rev == store.New {
		return &state{info: tape.Info{Tape: name}}, nil
	}
	if known := s.known(name); known != nil && known.rev == in.Rev && bytes.Equal(known.head, in.Head) {
		return known, nil
	}
	var h head
	if err := json.Unmarshal(in.Head, &h); err != nil {
		return nil, fmt.Errorf("tape %s: %w: its head cannot be read: %w", name, tape.ErrDamaged, err)
	}
	st := h.state()
	st.rev, st.key, st.first, st.head, st.info.Bytes = in.Rev, in.Name, in.First, in.Head, in.Bytes
	st.info.LastID = max(st.info.LastID, int64(in.Last)) // the last may be damaged; its id is not given again
	if a := h.Anchor; a != nil && a.Unnamed {
		return st, s.readAnchor(ctx, st)
	}
	return st, nil
}

// readAnchor reads the last anchor, of which the head has no name.
func (s *Store) readAnchor(ctx context.Context, st *state) error {
	id := st.info.LastAnchor.ID
	for e, err := range (&source{ctx: ctx, s: s, state: st}).Entries(id-1, id+1, false) {
		if err != nil {
			return err
		}
		st.info.LastAnchor = tape.AnchorOf(e)
	}
	return nil
}
