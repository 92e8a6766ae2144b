package turns

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/turn"
)

// plugin is the agent's part in the framework. It has nothing to do with turns that come from elsewhere.
type plugin struct{ agent *Agent }

// ResolveSession takes the session that the channel's facts are of, and no other plugin decides that.
func (*plugin) ResolveSession(ctx context.Context, _ *turn.Envelope) (turn.SessionID, bool, error) {
	if r := replyOf(ctx); r != nil {
		return r.turn.SessionKey, true, nil
	}
	return "", false, nil
}

// LoadState notes that the turn has begun in its lane.
func (*plugin) LoadState(ctx context.Context, _ *turn.Envelope, _ turn.SessionID) (turn.State, error) {
	if r := replyOf(ctx); r != nil {
		r.began.Store(true)
	}
	return nil, nil
}

// SystemPrompt adds what the operator has for the group.
func (*plugin) SystemPrompt(ctx context.Context, _ turn.Prompt, _ turn.State) (string, error) {
	if r := replyOf(ctx); r != nil {
		return r.turn.Context.GroupSystemPrompt, nil
	}
	return "", nil
}

// RenderOutbound renders nothing, and notes that the answer is there.
func (*plugin) RenderOutbound(ctx context.Context, _ *turn.Outcome) ([]*turn.Envelope, error) {
	if r := replyOf(ctx); r != nil {
		r.rendered.Store(true)
	}
	return nil, nil
}

// DispatchOutbound makes a block of what goes out. An envelope for another channel or chat is refused: where a reply goes was
// settled when the message came.
func (p *plugin) DispatchOutbound(ctx context.Context, e *turn.Envelope) (delivered bool, err error) {
	r := replyOf(ctx)
	if r == nil {
		return false, nil
	}
	c := r.turn.Context
	if e.Channel != c.Channel || e.ChatID != c.ChatID || e.OutputChannel != "" && e.OutputChannel != c.Channel {
		p.agent.log(ctx, r.turn, slog.LevelWarn, "refused a message for another conversation")
		return false, nil
	}
	if e.Kind == turn.KindError {
		return true, r.emit(ctx, channel.ReplyFinal, channel.Payload{Text: e.Content, IsError: true})
	}
	payload := channel.Payload{Text: e.Content, Media: media(e.Media)}
	kind := channel.ReplyBlock
	if !r.began.Load() || r.rendered.Load() {
		kind = channel.ReplyFinal
		payload.Text, payload.Upto = r.rest(payload.Text)
	}
	if strings.TrimSpace(payload.Text) == "" && len(payload.Media) == 0 {
		return true, nil
	}
	err = r.emit(ctx, kind, payload)
	return err == nil, err
}

// media are those of an envelope that a channel can send: what has an address. Data are no address.
func media(list []turn.Media) []channel.MediaFact {
	var facts []channel.MediaFact
	for _, m := range list {
		if m.URL == "" || strings.HasPrefix(m.URL, "data:") {
			continue
		}
		kind := channel.MediaKind(m.Type)
		if !slices.Contains(typed, kind) {
			kind = channel.MediaDocument
		}
		facts = append(facts, channel.MediaFact{URL: m.URL, ContentType: m.MIME, Kind: kind})
	}
	return facts
}
