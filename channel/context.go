package channel

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/tool"
	"github.com/lingserve/lingserve/turn"
)

// TurnContext is what the agent gets of an event, from [BuildContext].
type TurnContext struct {
	Body, BodyForAgent, RawBody, BodyForCommands string
	InboundHistory                               []HistoryEntry
	Channel, Surface                             string
	ObserveOnly                                  bool

	From, SenderID, SenderName, SenderUsername, SenderTag string
	MemberRoleIDs                                         []string

	To, OriginatingTo, OriginatingChannel string

	AgentID, AccountID                                  string
	SessionKey, ParentSessionKey, ModelParentSessionKey string

	MessageID, MessageIDFull string
	Timestamp                time.Time

	ReplyToID, ReplyToIDFull, ReplyToBody, ReplyToSender string
	ReplyToIsQuote                                       bool

	ForwardedFrom, ForwardedFromType, ForwardedFromID string
	ForwardedDate                                     time.Time

	ThreadStarterBody, ThreadHistoryBody, ThreadLabel string

	Media []MediaFact

	ChatType                                    ChatType
	ChatID, ConversationLabel                   string
	GroupSpace, GroupSubject, GroupSystemPrompt string
	Untrusted                                   []Untrusted

	WasMentioned, Addressed, CommandAuthorized bool
	Role                                       tool.Role // holds only if HasRole
	HasRole                                    bool
	Approver                                   turn.Approver // who can answer a question for approval in this conversation

	MessageThreadID, NativeChannelID, ThreadParentID string
}

// MissingError is a required fact that is missing. A conversation of an unknown kind has none.
type MissingError struct{ Field string } // "Facts.Conversation.ID"

func (e *MissingError) Error() string { return "channel: " + e.Field + " is missing" }

// check returns the first required fact that is missing.
func (f *Facts) check() error {
	kind := f.Conversation.Kind
	if kind != Direct && kind != Group && kind != Broadcast {
		kind = ""
	}
	for _, need := range [...]struct{ field, value string }{
		{"Facts.Channel", f.Channel},
		{"Facts.MessageID", f.MessageID},
		{"Facts.Conversation.Kind", string(kind)},
		{"Facts.Conversation.ID", f.Conversation.ID},
		{"Facts.Sender.ID", f.Sender.ID},
		{"Facts.Route.AgentID", f.Route.AgentID},
		{"Facts.Route.RouteSessionKey", f.Route.RouteSessionKey},
		{"Facts.Reply.To", f.Reply.To},
	} {
		if strings.TrimSpace(need.value) == "" {
			return &MissingError{Field: need.field}
		}
	}
	return nil
}

// hiddenForward replaces a forwarded message that the policy hides.
const hiddenForward = "[a forwarded message that context_visibility hides]"

// BuildContext maps facts to a [TurnContext]. It is pure: no I/O, no clock, no log. The context shares no slices with f. The error is a
// [*MissingError].
func BuildContext(f Facts) (*TurnContext, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	d := Evaluate(f)
	seen, hidden := f.Supplemental.Visible(f.Access.Visibility)
	if hidden {
		f.Message.RawBody, f.Message.Body, f.Message.CommandBody = "", "", ""
		f.Message.BodyForAgent, f.Media = hiddenForward, nil
	}
	m, s, c, r := &f.Message, &f.Sender, &f.Conversation, &f.Route
	t := &TurnContext{
		RawBody:         clean(m.RawBody),
		Body:            clean(cmp.Or(m.Body, m.RawBody)),
		BodyForAgent:    clean(cmp.Or(m.BodyForAgent, m.RawBody)),
		BodyForCommands: clean(cmp.Or(m.CommandBody, m.RawBody)),
		InboundHistory:  cleanHistory(m.InboundHistory),
		Channel:         f.Channel,
		Surface:         f.Channel,
		ObserveOnly:     f.Observing,

		From:           f.From,
		SenderID:       f.Sender.ID,
		SenderName:     label(cmp.Or(s.Name, s.DisplayLabel)),
		SenderUsername: label(s.Username),
		SenderTag:      label(s.Tag),
		MemberRoleIDs:  slices.Clone(s.Roles),

		To:                 f.Reply.To,
		OriginatingTo:      cmp.Or(f.Reply.OriginatingTo, f.Reply.To),
		OriginatingChannel: f.Channel,

		AgentID:               r.AgentID,
		AccountID:             cmp.Or(r.AccountID, f.Account),
		SessionKey:            cmp.Or(r.DispatchSessionKey, r.RouteSessionKey),
		ParentSessionKey:      r.ParentSessionKey,
		ModelParentSessionKey: r.ModelParentSessionKey,

		MessageID:     f.MessageID,
		MessageIDFull: f.MessageIDFull,
		Timestamp:     f.Timestamp,

		Media: MediaFacts(f.Media, MediaFact{}),

		ChatType:          c.Kind,
		ChatID:            c.ID,
		ConversationLabel: label(c.Label),
		GroupSpace:        c.SpaceID,
		GroupSystemPrompt: clean(seen.GroupSystemPrompt),

		WasMentioned:      f.Access.Mentions.WasMentioned,
		Addressed:         d.Addressed,
		CommandAuthorized: d.CommandAuthorized,
		Role:              d.Role,
		HasRole:           d.HasRole,
		Approver:          d.Approver,

		MessageThreadID: f.Reply.MessageThreadID.Or(Some(c.ThreadID)).Value,
		NativeChannelID: cmp.Or(f.Reply.NativeChannelID, c.NativeChannelID),
		ThreadParentID:  f.Reply.ThreadParentID.Or(Some(c.ParentID)).Value,
	}
	if c.Kind != Direct {
		t.GroupSubject = t.ConversationLabel
	}
	for _, u := range seen.Untrusted {
		if text := clean(u.Text); strings.TrimSpace(text) != "" {
			t.Untrusted = append(t.Untrusted, Untrusted{Kind: label(u.Kind), Text: text})
		}
	}
	if q := seen.Quote; q != nil { // the reply plan has another id: of the message that the answer replies to
		t.ReplyToID, t.ReplyToIDFull = q.ID, q.FullID
		t.ReplyToBody, t.ReplyToSender, t.ReplyToIsQuote = clean(q.Body), label(q.Sender), q.IsQuote
		t.Media = append(t.Media, MediaFacts(q.Media, MediaFact{MessageID: q.ID})...)
	}
	if w := seen.Forwarded; w != nil {
		t.ForwardedFrom, t.ForwardedFromType, t.ForwardedFromID = label(w.From), label(w.FromType), w.FromID
		t.ForwardedDate = w.Date
	}
	if w := seen.Thread; w != nil {
		t.ParentSessionKey = cmp.Or(t.ParentSessionKey, w.ParentSessionKey)
		t.ModelParentSessionKey = cmp.Or(t.ModelParentSessionKey, w.ModelParentSessionKey)
		t.ThreadStarterBody, t.ThreadHistoryBody = clean(w.StarterBody), clean(w.HistoryBody)
		t.ThreadLabel = label(cmp.Or(w.Label, w.ID))
	}
	return t, nil
}

func cleanHistory(entries []HistoryEntry) []HistoryEntry {
	var rows []HistoryEntry
	for _, e := range entries {
		e.Sender, e.Body, e.Media = label(e.Sender), clean(e.Body), MediaFacts(e.Media, MediaFact{})
		rows = append(rows, e)
	}
	return rows
}

// kindOf returns the kind of a MIME type.
func kindOf(contentType string) MediaKind {
	switch family, _, _ := strings.Cut(contentType, "/"); family {
	case "image", "video", "audio":
		return MediaKind(family)
	case "application", "text":
		return MediaDocument
	}
	return MediaUnknown
}

// MediaFacts prepares media for [Facts]: it trims values, removes credentials from addresses, and takes missing values from defaults. A
// medium is transcribed if it or defaults say so. Items without path and address stay, because the index is the identity.
func MediaFacts(list []MediaFact, defaults MediaFact) (media []MediaFact) {
	for _, m := range list {
		kind := m.Kind
		if strings.TrimSpace(m.ContentType) == "" { // else the kind follows from the item's own type
			kind = cmp.Or(kind, defaults.Kind)
		}
		m.Path = cmp.Or(strings.TrimSpace(m.Path), strings.TrimSpace(defaults.Path))
		m.URL = bare(cmp.Or(strings.TrimSpace(m.URL), strings.TrimSpace(defaults.URL)))
		m.ContentType = strings.ToLower(strings.TrimSpace(cmp.Or(strings.TrimSpace(m.ContentType), defaults.ContentType)))
		m.Kind = cmp.Or(kind, kindOf(m.ContentType))
		m.MessageID = cmp.Or(strings.TrimSpace(m.MessageID), defaults.MessageID)
		m.Transcribed = m.Transcribed || defaults.Transcribed
		m.Size, m.Duration = cmp.Or(m.Size, defaults.Size), cmp.Or(m.Duration, defaults.Duration)
		m.Width, m.Height = cmp.Or(m.Width, defaults.Width), cmp.Or(m.Height, defaults.Height)
		media = append(media, m)
	}
	return media
}

// MediaPaths returns the local files of [TurnContext.Media]; "" for a medium without one.
func (t *TurnContext) MediaPaths() []string {
	return eachMedium(t.Media, func(m MediaFact) string { return m.Path })
}

// MediaURLs returns the addresses of [TurnContext.Media]; "" for a medium without one.
func (t *TurnContext) MediaURLs() []string {
	return eachMedium(t.Media, func(m MediaFact) string { return m.URL })
}

// MediaTypes returns the MIME types of [TurnContext.Media]; "" for an unknown one.
func (t *TurnContext) MediaTypes() []string {
	return eachMedium(t.Media, func(m MediaFact) string { return m.ContentType })
}

// MediaTranscribedIndexes returns the indexes in [TurnContext.Media] of media whose content is in the text.
func (t *TurnContext) MediaTranscribedIndexes() (indexes []int) {
	for i, m := range t.Media {
		if m.Transcribed {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

func eachMedium(media []MediaFact, value func(MediaFact) string) (values []string) {
	for _, m := range media {
		values = append(values, value(m))
	}
	return values
}
