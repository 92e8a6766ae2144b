package channel

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/turn"

	"github.com/lingserve/lingserve/tool"
)

// TurnContext is what the agent is told of an event. [BuildContext] makes it.
type TurnContext struct {
	Body, BodyForAgent, RawBody, BodyForCommands string
	InboundHistory                               []HistoryEntry
	Channel, Surface                             string
	Trigger                                      Trigger
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

// System is the id of the sender of a turn that the server starts by itself.
const System = "system"

// MissingError says which fact is missing that [BuildContext] cannot do without.
type MissingError struct {
	Field string // "Facts.Conversation.ID"
	Value string // what is there instead, where only some values are allowed
}

func (e *MissingError) Error() string {
	if e.Value != "" {
		return "channel: " + e.Field + " has a value that there is not"
	}
	return "channel: " + e.Field + " is missing"
}

// check says what is missing, first things first.
func (f *Facts) check() error {
	for _, need := range [...]struct{ field, value string }{
		{"Facts.Channel", f.Channel},
		{"Facts.MessageID", f.MessageID},
		{"Facts.Conversation.Kind", string(f.Conversation.Kind)},
		{"Facts.Conversation.ID", f.Conversation.ID},
		{"Facts.Sender.ID", f.senderID()},
		{"Facts.Route.AgentID", f.Route.AgentID},
		{"Facts.Route.RouteSessionKey", f.Route.RouteSessionKey},
		{"Facts.Reply.To", f.Reply.To},
	} {
		if strings.TrimSpace(need.value) == "" {
			return &MissingError{Field: need.field}
		}
	}
	switch f.Conversation.Kind {
	case Direct, Group, Broadcast:
		return nil
	}
	return &MissingError{Field: "Facts.Conversation.Kind", Value: string(f.Conversation.Kind)}
}

func (f *Facts) senderID() string {
	if f.Sender.ID == "" && f.Trigger != "" {
		return System
	}
	return f.Sender.ID
}

// hiddenForward is what stands in the place of a message that was forwarded from somebody whose words are hidden.
const hiddenForward = "[a forwarded message that context_visibility hides]"

// BuildContext maps facts to what the agent is told: no I/O, no clock, no log. It keeps nothing of f that could be changed through it
// but media lists of history entries. The error is a [*MissingError].
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
		RawBody:        clean(m.RawBody),
		InboundHistory: cleanHistory(m.InboundHistory),
		Channel:        f.Channel,
		Surface:        f.Channel,
		Trigger:        f.Trigger,
		ObserveOnly:    f.Observing,

		From:           f.From,
		SenderID:       f.senderID(),
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

		Media: cleanMedia(f.Media),

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

		MessageThreadID: fallBack(f.Reply.MessageThreadID, c.ThreadID),
		NativeChannelID: cmp.Or(f.Reply.NativeChannelID, c.NativeChannelID),
		ThreadParentID:  fallBack(f.Reply.ThreadParentID, c.ParentID),
	}
	t.Body = cleanOr(m.Body, t.RawBody)
	t.BodyForAgent = cleanOr(m.BodyForAgent, t.RawBody)
	t.BodyForCommands = cleanOr(m.CommandBody, t.RawBody)
	if c.Kind != Direct {
		t.GroupSubject = t.ConversationLabel
	}
	for _, u := range seen.Untrusted {
		t.addUntrusted(u.Kind, u.Text)
	}
	if q := seen.Quote; q != nil {
		t.quote(&f, q)
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

// quote takes what the message replies to, and what that replied to.
func (t *TurnContext) quote(f *Facts, q *Quote) {
	// The reply plan's own id is the message that the answer goes to, not the one that this message quotes.
	t.ReplyToID, t.ReplyToIDFull = q.ID, q.FullID
	t.ReplyToBody, t.ReplyToSender, t.ReplyToIsQuote = clean(q.Body), label(q.Sender), q.IsQuote
	t.Media = append(t.Media, MediaFacts(q.Media, MediaFact{MessageID: q.ID})...)
	for _, hop := range q.Chain {
		text := clean(hop.Body)
		if who := label(hop.Sender); who != "" {
			text = who + ":\n" + text
		}
		t.addUntrusted("earlier in this chain of replies", text)
		t.Media = append(t.Media, MediaFacts(hop.Media, MediaFact{MessageID: hop.ID})...)
	}
}

func (t *TurnContext) addUntrusted(kind, text string) {
	if text = clean(text); strings.TrimSpace(text) != "" {
		t.Untrusted = append(t.Untrusted, Untrusted{Kind: label(kind), Text: text})
	}
}

// cleanOr is the clean text, or what is clean already where there is none.
func cleanOr(text, already string) string {
	if text == "" {
		return already
	}
	return clean(text)
}

// fallBack is what was set, "" for none, else what stands in its place.
func fallBack(o Opt, unset string) string {
	if v, set := o.Get(); set {
		return v
	}
	return unset
}

func cleanHistory(entries []HistoryEntry) []HistoryEntry {
	if len(entries) == 0 {
		return nil
	}
	rows := slices.Clone(entries)
	for i := range rows {
		rows[i].Sender, rows[i].Body = label(rows[i].Sender), clean(rows[i].Body)
		rows[i].Media = cleanMedia(rows[i].Media)
	}
	return rows
}

// cleanMedia keeps every medium in its place, for the index is its identity.
func cleanMedia(list []MediaFact) []MediaFact {
	if len(list) == 0 {
		return nil
	}
	media := slices.Clone(list)
	for i := range media {
		media[i] = media[i].clean()
	}
	return media
}

func (m MediaFact) clean() MediaFact {
	m.Path, m.URL = strings.TrimSpace(m.Path), bare(strings.TrimSpace(m.URL))
	m.ContentType = strings.ToLower(strings.TrimSpace(m.ContentType))
	if m.Kind == "" {
		m.Kind = kindOf(m.ContentType)
	}
	return m
}

// kindOf is what a MIME type says of a medium.
func kindOf(contentType string) MediaKind {
	switch family, _, _ := strings.Cut(contentType, "/"); family {
	case "image", "video", "audio":
		return MediaKind(family)
	case "application", "text":
		return MediaDocument
	}
	return MediaUnknown
}

// MediaFacts is a list of media made ready for [Facts]: trimmed, without credentials in addresses, and with the values of defaults
// where an item has none of its own. Transcribed counts where either says so. Items without path and address stay: their index is
// their identity.
func MediaFacts(list []MediaFact, defaults MediaFact) []MediaFact {
	media := make([]MediaFact, len(list))
	for i, m := range list {
		media[i] = MediaFact{
			Path:        cmp.Or(strings.TrimSpace(m.Path), defaults.Path),
			URL:         cmp.Or(strings.TrimSpace(m.URL), defaults.URL),
			ContentType: cmp.Or(strings.TrimSpace(m.ContentType), defaults.ContentType),
			Kind:        m.Kind,
			MessageID:   cmp.Or(strings.TrimSpace(m.MessageID), defaults.MessageID),
			Transcribed: m.Transcribed || defaults.Transcribed,
			Size:        cmp.Or(m.Size, defaults.Size),
			Width:       cmp.Or(m.Width, defaults.Width),
			Height:      cmp.Or(m.Height, defaults.Height),
			Duration:    cmp.Or(m.Duration, defaults.Duration),
		}
		if media[i].Kind == "" && strings.TrimSpace(m.ContentType) == "" {
			media[i].Kind = defaults.Kind // else the item's own type says more
		}
		media[i] = media[i].clean()
	}
	return media
}

// MediaPaths are the local files of [TurnContext.Media], in order; "" for one that has none.
func (t *TurnContext) MediaPaths() []string {
	return view(t.Media, func(m MediaFact) string { return m.Path })
}

// MediaURLs are the addresses of [TurnContext.Media], in order; "" for one that has none.
func (t *TurnContext) MediaURLs() []string {
	return view(t.Media, func(m MediaFact) string { return m.URL })
}

// MediaTypes are the MIME types of [TurnContext.Media], in order; "" for one that is not known.
func (t *TurnContext) MediaTypes() []string {
	return view(t.Media, func(m MediaFact) string { return m.ContentType })
}

// MediaTranscribedIndexes are the places in [TurnContext.Media] of what is in the text already.
func (t *TurnContext) MediaTranscribedIndexes() []int {
	var at []int
	for i, m := range t.Media {
		if m.Transcribed {
			at = append(at, i)
		}
	}
	return at
}

func view(media []MediaFact, of func(MediaFact) string) []string {
	if len(media) == 0 {
		return nil
	}
	list := make([]string, len(media))
	for i, m := range media {
		list[i] = of(m)
	}
	return list
}

// Check says what a context that comes ready does not have.
func (t *TurnContext) Check() error {
	for _, need := range [...]struct{ field, value string }{
		{"TurnContext.Channel", t.Channel},
		{"TurnContext.MessageID", t.MessageID},
		{"TurnContext.ChatType", string(t.ChatType)},
		{"TurnContext.ChatID", t.ChatID},
		{"TurnContext.SenderID", t.SenderID},
		{"TurnContext.AgentID", t.AgentID},
		{"TurnContext.SessionKey", t.SessionKey},
		{"TurnContext.To", t.To},
	} {
		if strings.TrimSpace(need.value) == "" {
			return &MissingError{Field: need.field}
		}
	}
	switch t.ChatType {
	case Direct, Group, Broadcast:
		return nil
	}
	return &MissingError{Field: "TurnContext.ChatType", Value: string(t.ChatType)}
}
