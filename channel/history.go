package channel

import (
	"context"
	"errors"
	"slices"
)

// history is what is to be done with the window at the end of the turn: forget what an answered one has seen of it, or keep a
// message that is not answered. It is nil for nothing. A window that fails is a warning: it changes no turn.
func (p *pass) history() func(context.Context) error {
	w := p.k.state.window
	switch {
	case p.tally.Visible && p.snapshot != nil && len(p.snapshot.Entries) > 0:
		return func(ctx context.Context) error {
			w.Consume(ctx, p.snapshot)
			return nil
		}
	case p.err == nil && p.result.Admission.Kind == Drop:
		if f := p.unanswered(); f != nil {
			return func(ctx context.Context) error {
				p.attempt(ctx, StageFinalize, "cannot write the history", func() error { return w.Record(ctx, p.recording(f)) })
				return nil
			}
		}
	}
	return nil
}

// recording is how a message goes to the window.
func (p *pass) recording(f *Facts) Recording {
	hint := &p.preflight.History
	r := Recording{
		Key: hint.Key, MessageID: f.MessageID, Time: f.Timestamp, Message: f.Message, Input: p.in, Sender: f.Sender, Media: f.Media,
		LoadMedia: hint.LoadMedia, Limit: hint.Limit, MediaLimit: hint.MediaLimit, ShouldRecord: hint.ShouldRecord,
	}
	if r.Key == (WindowKey{}) {
		r.Key = f.WindowKey()
	}
	if load := hint.LoadMedia; load != nil {
		r.LoadMedia = func(ctx context.Context) ([]MediaFact, error) {
			ctx, cancel := context.WithTimeout(ctx, LoaderTimeout)
			defer cancel()
			return load(ctx)
		}
	}
	return r
}

// unanswered is the message that waits for a later mention; nil where it does not, since nobody said so, or its sender may not
// talk here at all.
func (p *pass) unanswered() *Facts {
	f, hint := p.facts, p.preflight.History
	record := p.result.Admission.RecordHistory
	if f == nil { // preflight has dropped it
		if !record && !hint.RecordOnDrop || p.preflight.Access == nil {
			return nil
		}
		f = &Facts{
			Channel: p.meta.Channel, Account: p.meta.Account, MessageID: p.in.ID, Timestamp: p.in.Timestamp,
			Sender: hint.Sender, Conversation: hint.Conversation, Access: *p.preflight.Access,
			Message: p.preflight.Message, Supplemental: p.preflight.Supplemental, Media: p.preflight.Media,
		}
		if f.Conversation.ID == "" {
			f.Conversation.ID, f.Conversation.ThreadID = p.in.ConversationID, p.in.ThreadID
		}
		if f.Sender.ID == "" {
			f.Sender.ID = p.in.SenderID
		}
		if !Evaluate(*f).Talks() {
			return nil
		}
	} else {
		if !record {
			return nil
		}
		d := &p.decision
		if p.result.Stage == StageResolve {
			*d = Evaluate(*f)
		}
		if !d.Talks() {
			return nil
		}
	}
	if f.Conversation.Kind == Direct || f.Supplemental.HidesMessage(f.Access.Visibility) { // what no agent may read waits for none
		return nil
	}
	return f
}

// checkMedia clears the paths of media that are not to be opened (CH-95).
func (p *pass) checkMedia(ctx context.Context, list []MediaFact) []MediaFact {
	checked := list
	for i := range list {
		if list[i].Path == "" {
			continue
		}
		m, err := list[i], errNoMedia
		if p.k.Media != nil {
			err = p.guard(ctx, func() (err error) {
				m, err = p.k.Media.Check(list[i])
				return err
			})
		}
		if err != nil {
			m.Path = ""
			p.warn(ctx, StageAssemble, "refused a file's type or size", err)
		}
		if &checked[0] == &list[0] { // it may be the caller's
			checked = slices.Clone(list)
		}
		checked[i] = m
	}
	return checked
}

// errNoMedia is what keeps local files from agents where nobody says which may be opened.
var errNoMedia = errors.New("no media folder is configured")
