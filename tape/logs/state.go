package logs

import (
	"context"
	"encoding/json"
	"fmt"
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
func keyOf(name string) (string, error) {
	parts := strings.SplitN(name, forkMark, 3)
	key := parts[0]
	for i, part := range parts[1:] {
		if i == 0 {
			key += "/" + forkPart
		}
		key += "/" + part
	}
	if err := store.CheckKey(key); err != nil {
		return "", fmt.Errorf("%w: tape name %.80q: its parts are too long", tape.ErrInvalid, name)
	}
	return key, nil
}

// state is what a tape is at one revision.
type state struct {
	rev   store.Rev
	key   string
	first uint64 // id of the first entry
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

// encode returns the head of a log.
func (st *state) encode() ([]byte, error) {
	i := &st.info
	h := head{
		Tape: i.Tape, Session: i.Session, Workspace: i.Workspace, Title: i.Title, Agent: i.Agent,
		Created: i.Created.UnixMicro(), Updated: i.Updated.UnixMicro(), Entries: i.Entries, LastID: i.LastID, Anchors: i.Anchors,
		Unreadable: i.Unreadable, Epoch: st.epoch.number, By: st.epoch.replica,
	}
	if st.importing {
		h.State = statePending
	}
	if i.Anchors > 0 {
		h.Anchor = &anchor{ID: i.LastAnchor.ID, Name: i.LastAnchor.Name, Date: i.LastAnchor.Date.UnixMicro()}
	}
	text, err := json.Marshal(h)
	if len(text) > store.MaxHead && h.Anchor != nil {
		h.Anchor.Name, h.Anchor.Unnamed = "", true
		text, err = json.Marshal(h)
	}
	if err == nil && len(text) > store.MaxHead {
		err = fmt.Errorf("%w: the session's id and workspace have %d bytes as JSON; expected at most %d", tape.ErrTooLarge, len(text), store.MaxHead)
	}
	return text, err
}

// stateOf reads the head of a log.
func (s *Store) stateOf(ctx context.Context, name string, in store.Info) (*state, error) {
	if in.Rev == store.New {
		return &state{info: tape.Info{Tape: name}}, nil
	}
	var h head
	if err := json.Unmarshal(in.Head, &h); err != nil {
		return nil, fmt.Errorf("tape %s: %w: its head cannot be read: %w", name, tape.ErrDamaged, err)
	}
	st := &state{rev: in.Rev, key: in.Name, first: in.First, epoch: epoch{h.Epoch, h.By}, importing: h.State == statePending, info: tape.Info{
		Tape: h.Tape, Session: h.Session, Workspace: h.Workspace, Title: h.Title, Agent: h.Agent, Created: date(h.Created), Updated: date(h.Updated),
		Entries: h.Entries, LastID: h.LastID, Anchors: h.Anchors, Unreadable: h.Unreadable, Bytes: in.Bytes,
	}}
	a := h.Anchor
	if a == nil {
		return st, nil
	}
	st.info.LastAnchor = tape.AnchorRef{ID: a.ID, Name: a.Name, Date: date(a.Date)}
	if a.Unnamed {
		for e, err := range (&source{ctx: ctx, s: s, state: st}).Entries(a.ID-1, a.ID+1, false) {
			if err != nil {
				return nil, err
			}
			st.info.LastAnchor = tape.AnchorOf(e)
		}
	}
	return st, nil
}
