package coze

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
	"github.com/lingserve/lingserve/internal/rawjson"
)

// promptVariable is the custom variable that has the system messages.
const promptVariable = "system_prompt"

// request starts a chat.
type request struct {
	BotID     string            `json:"bot_id"`
	UserID    string            `json:"user_id"`
	Messages  []message         `json:"additional_messages"`
	Stream    bool              `json:"stream"`
	Save      bool              `json:"auto_save_history"`
	Variables map[string]string `json:"custom_variables,omitempty"`
}

type message struct {
	Role        string `json:"role"`
	Type        string `json:"type"`
	Content     string `json:"content"`
	ContentType string `json:"content_type"`
}

// part is a piece of a message whose content_type is object_string.
type part struct {
	Type    string `json:"type"`
	Text    string `json:"text,omitempty"`
	FileURL string `json:"file_url,omitempty"`
	FileID  string `json:"file_id,omitempty"`
}

// outputs goes on with a chat that waits for the outputs of tools.
type outputs struct {
	Outputs []output `json:"tool_outputs"`
	Stream  bool     `json:"stream"`
}

type output struct {
	CallID string `json:"tool_call_id"`
	Output string `json:"output"`
}

// ask sends the request and returns the answer once it has begun.
func (a *answer) ask(ctx context.Context, req *adapter.Request) (*http.Response, error) {
	m := a.m
	if chat, given := m.p.findWaiting(m.name, req.Messages); chat != nil {
		u := m.p.url("submit_tool_outputs")
		q := u.Query() // of the base URL
		q.Set("conversation_id", chat.conversation)
		q.Set("chat_id", chat.id)
		u.RawQuery = q.Encode()
		a.conversation, a.chat = chat.conversation, chat.id
		res, err := m.p.post(ctx, u.String(), &asking{request: outputs{Outputs: given, Stream: true}})
		if !gone(err) {
			if err == nil {
				m.p.forgetWaiting(chat)
			}
			return res, err
		}
		// Coze does not wait for the outputs any more: a new chat gets them.
		m.p.forgetWaiting(chat)
		a.conversation, a.chat = "", ""
	}
	r, err := m.request(ctx, req)
	if err != nil {
		return nil, err
	}
	return m.p.post(ctx, m.p.chat.String(), &asking{request: r, extra: req.ExtraBody})
}

func (p *provider) url(resource string) *url.URL { return p.chat.JoinPath(resource) }

// request says in Coze's words what is asked. Images that are data are uploaded for it.
func (m *model) request(ctx context.Context, req *adapter.Request) (*request, error) {
	r := &request{BotID: m.name, UserID: m.p.user, Stream: true, Messages: []message{}}
	// Coze takes the outputs of tools only for chats that it keeps; and in those it takes no calls and outputs as history.
	r.Save = len(req.Tools) > 0
	var prompts []string
	calls := map[string]adapter.ToolCall{}
	for _, msg := range req.Messages {
		switch msg.Role {
		case adapter.System:
			if text := textOf(msg); text != "" {
				prompts = append(prompts, text)
			}
		case adapter.Assistant:
			if text := textOf(msg); text != "" {
				r.add(adapter.Assistant, "answer", text)
			}
			for _, call := range msg.ToolCalls {
				calls[call.ID] = call
				if !r.Save {
					r.add(adapter.Assistant, "function_call", callText(call))
				}
			}
		case adapter.ToolRole:
			if r.Save {
				call := calls[msg.ToolCallID]
				r.add(adapter.User, "question", "The tool "+call.Name+", called with "+call.Arguments+", has answered:\n"+textOf(msg))
			} else {
				r.add(adapter.Assistant, "tool_output", textOf(msg))
			}
		default:
			if err := r.question(ctx, m.p, msg); err != nil {
				return nil, err
			}
		}
	}
	r.variables(prompts, req)
	return r, nil
}

func (r *request) add(role, kind, text string) {
	r.Messages = append(r.Messages, message{Role: role, Type: kind, Content: text, ContentType: "text"})
}

// question adds what the user says.
func (r *request) question(ctx context.Context, p *provider, msg adapter.Message) error {
	var parts []part
	media := false
	for _, piece := range msg.Parts {
		address, out := piece.Image, part{Type: "image"}
		if piece.File != "" {
			address, out.Type = piece.File, "file"
			if piece.Kind() == adapter.KindAudio {
				out.Type = "audio"
			}
		}
		switch {
		case strings.HasPrefix(address, "data:"):
			var err error
			if out.FileID, err = p.upload(ctx, address, piece.Name); err != nil {
				return err
			}
		case address != "":
			out.FileURL = address
		case piece.Text != "":
			out = part{Type: "text", Text: piece.Text}
		default:
			continue
		}
		media = media || address != ""
		parts = append(parts, out)
	}
	if !media {
		r.add(adapter.User, "question", textOf(msg))
		return nil
	}
	r.Messages = append(r.Messages, message{
		Role: adapter.User, Type: "question", Content: jsonText(parts), ContentType: "object_string",
	})
	return nil
}

// variables puts what belongs to a prompt where a bot's own prompt can refer to it.
func (r *request) variables(prompts []string, req *adapter.Request) {
	if schema := req.Format.Schema; req.Format.JSON && len(schema) > 0 {
		prompts = append(prompts, "Answer with one JSON value and nothing else. It must fit this JSON Schema:\n"+string(schema))
	}
	r.Variables = make(map[string]string, len(req.Params)+1)
	for name, value := range req.Params {
		switch v := value.(type) {
		case nil:
		case string:
			r.Variables[name] = v
		default:
			r.Variables[name] = jsonText(v)
		}
	}
	if len(prompts) > 0 {
		r.Variables[promptVariable] = strings.Join(prompts, "\n\n")
	}
}

// textOf is a message's text.
func textOf(msg adapter.Message) string {
	if len(msg.Parts) == 0 {
		return msg.Content
	}
	var b strings.Builder
	for _, p := range msg.Parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// callText is the content of a message that shows a call.
func callText(call adapter.ToolCall) string {
	return jsonText(struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}{call.Name, wire.Arguments(call.Arguments)})
}

// jsonText writes a value as JSON; "null" where it cannot be written.
func jsonText(v any) string {
	text, err := rawjson.Marshal(v)
	if err != nil {
		return "null"
	}
	return string(text)
}
