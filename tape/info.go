package tape

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"strings"
	"time"
)

const titleLen = 60 // code points

// Add takes in the next entry of the tape, so that a store's directory can be kept, and rebuilt, from the entries alone.
// Bytes is the store's own.
func (i *Info) Add(e Entry) {
	if i.Entries == 0 {
		i.Created = e.Date
	}
	i.Entries++
	i.LastID = e.ID
	i.Updated = e.Date
	switch e.Kind {
	case KindAnchor:
		i.Anchors++
		i.LastAnchor = AnchorOf(e)
	case KindMessage:
		if i.Title == "" {
			i.Title = titleOf(e)
		}
	}
	// Most entries say nothing of the session, and are seen at every append.
	if (e.Kind == KindAnchor || e.Kind == KindEvent) && (bytes.Contains(e.Meta, []byte(`"session"`)) || bytes.Contains(e.Meta, []byte(`"agent"`))) {
		m := MetaOf(e)
		if m.Session != "" {
			i.Session, i.Workspace = m.Session, m.Workspace
		}
		i.Agent = cmp.Or(m.Agent, i.Agent)
	}
}

// AddBatch takes in the entries of b as they were written.
func (i *Info) AddBatch(b Batch, entries []Entry) {
	for _, e := range entries {
		i.Add(e)
	}
	if b.Create && b.Session != "" {
		i.Session, i.Workspace = b.Session, b.Workspace
	}
}

// AnchorOf says where an anchor is, given its entry.
func AnchorOf(e Entry) AnchorRef {
	return AnchorRef{ID: e.ID, Name: PayloadOf(e).Name, Date: e.Date}
}

// titleOf returns the title that a user's message gives its session: that of its meta, or the beginning of its text.
func titleOf(e Entry) string {
	p := PayloadOf(e)
	if p.Role != "user" {
		return ""
	}
	return cmp.Or(Title(MetaOf(e).Title), Title(TextOf(p.Content)))
}

// Title returns the beginning of a text, on one line of at most 60 code points.
func Title(text string) string {
	return first(strings.Join(strings.Fields(first(text, 100*titleLen)), " "), titleLen)
}

// Cursor is the place of this session in a listing.
func (i Info) Cursor() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", i.Updated.UnixMicro(), i.Tape))
}

// Last returns the tape and the date of the session at which the cursor After points. Without a cursor it is zero.
func (q SessionQuery) Last() (last Info, err error) {
	if q.After == "" {
		return Info{}, nil
	}
	var updated int64
	text, err := base64.RawURLEncoding.DecodeString(q.After)
	if err == nil {
		_, err = fmt.Sscanf(string(text), "%d %s", &updated, &last.Tape)
	}
	if err != nil || CheckName(last.Tape) != nil {
		return Info{}, fmt.Errorf("%w: %q is not a cursor of a session list", ErrInvalid, q.After)
	}
	last.Updated = time.UnixMicro(updated).UTC()
	return last, nil
}
