package fakeproviders

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// bedrock is the format of Amazon Bedrock's Converse API. It refuses the histories that Bedrock and its models refuse, in their words.
type bedrock struct {
	block int  // the number of the next block
	at    byte // what it is that is being written: text, reasoning, a call; 0 is nothing
}

func (f *bedrock) kind() string { return "application/vnd.amazon.eventstream" }

// AppendFrame appends a message of an AWS event stream. A name of "" leaves its header out, and so does a kind.
func AppendFrame[T ~string | ~[]byte](b []byte, kind, name string, payload T) []byte {
	start := len(b)
	b = slices.Grow(b, len(payload)+128)
	b = append(b, make([]byte, 12)...)
	header := func(name, value string) {
		b = append(append(b, byte(len(name))), name...)
		b = append(append(b, 7, byte(len(value)>>8), byte(len(value))), value...)
	}
	if name != "" {
		header(map[string]string{"event": ":event-type", "exception": ":exception-type", "error": ":error-code"}[kind], name)
		header(":content-type", "application/json")
	}
	if kind != "" {
		header(":message-type", kind)
	}
	binary.BigEndian.PutUint32(b[start+4:], uint32(len(b)-start-12))
	b = append(b, payload...)
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start+4))
	binary.BigEndian.PutUint32(b[start+8:], crc32.ChecksumIEEE(b[start:start+8]))
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[start:]))
}

func (f *bedrock) event(a *writer, name, members string) {
	a.buf = AppendFrame(a.buf, "event", name, "{"+members+`,"p":"abcdefghijklmnopqr"}`)
}

func (f *bedrock) open(a *writer) { f.event(a, "messageStart", `"role":"assistant"`) }

func (f *bedrock) text(a *writer, token string) { f.delta(a, 't', `"text":`, token) }

func (f *bedrock) reasoning(a *writer, token string) {
	f.delta(a, 'r', `"reasoningContent":{"text":`, token)
}

// delta appends a piece of a block of text or reasoning, which begins without being announced.
func (f *bedrock) delta(a *writer, kind byte, member, token string) {
	if f.at != kind {
		f.stop(a)
		f.at = kind
	}
	end := "}"
	if kind == 'r' {
		end = "}}"
	}
	f.event(a, "contentBlockDelta", `"contentBlockIndex":`+strconv.Itoa(f.block)+`,"delta":{`+member+string(appendString(nil, token))+end)
}

// stop ends the block that is being written; one of reasoning by its signature.
func (f *bedrock) stop(a *writer) {
	if f.at == 0 {
		return
	}
	index := `"contentBlockIndex":` + strconv.Itoa(f.block)
	if f.at == 'r' {
		f.event(a, "contentBlockDelta", index+`,"delta":{"reasoningContent":{"signature":"`+Signature(a.answer.Reasoning)+`"}}`)
	}
	f.event(a, "contentBlockStop", index)
	f.block++
	f.at = 0
}

// Signature is what the stand-in signs reasoning with, and wants to have back.
func Signature(reasoning string) string {
	sum := sha256.Sum256([]byte("signed: " + reasoning))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func (f *bedrock) call(a *writer, _ int, call ToolCall) bool {
	f.stop(a)
	index := `"contentBlockIndex":` + strconv.Itoa(f.block)
	f.event(a, "contentBlockStart", index+`,"start":{"toolUse":{"name":`+string(appendString(nil, call.Name))+`,"toolUseId":`+string(appendString(nil, call.ID))+`}}`)
	for token := range tokens(call.Arguments) {
		if !a.due() {
			return false
		}
		f.event(a, "contentBlockDelta", index+`,"delta":{"toolUse":{"input":`+string(appendString(nil, token))+`}}`)
		if !a.paced() {
			return false
		}
	}
	f.at = 'c'
	f.stop(a)
	return true
}

func (f *bedrock) close(a *writer) {
	f.stop(a)
	f.event(a, "messageStop", `"stopReason":`+string(appendString(nil, f.reason(a))))
	f.event(a, "metadata", `"metrics":{"latencyMs":1},"usage":`+f.usage(a))
}

func (f *bedrock) reason(a *writer) string {
	switch reason := a.finish(); reason {
	case "stop":
		return "end_turn"
	case "tool_calls":
		return "tool_use"
	case "length":
		return "max_tokens"
	case "content_filter":
		return "content_filtered"
	default:
		return reason
	}
}

func (f *bedrock) usage(a *writer) string {
	prompt, completion := a.used()
	return fmt.Sprintf(`{"inputTokens":%d,"outputTokens":%d,"totalTokens":%d}`, prompt, completion, prompt+completion)
}

// refuse answers with {"message":"…"} and the kind of the exception in a header.
func (f *bedrock) refuse(w http.ResponseWriter, status int, body string) {
	if h := w.Header(); h.Get("X-Amzn-Errortype") == "" {
		h.Set("X-Amzn-Errortype", map[int]string{
			400: "ValidationException", 401: "UnrecognizedClientException", 403: "AccessDeniedException", 404: "ResourceNotFoundException",
			408: "ModelTimeoutException", 409: "ConflictException", 424: "ModelErrorException", 429: "ThrottlingException",
			500: "InternalServerException", 503: "ServiceUnavailableException",
		}[status]+":http://internal.amazon.com/coral/com.amazon.bedrock/")
	}
	writeError(w, status, body, func(message string) any { return map[string]string{"message": message} })
}

// converse is a request. Members that the API does not have are refused.
type converse struct {
	Messages []struct {
		Role    string  `json:"role"`
		Content []block `json:"content"`
	} `json:"messages"`
	System []struct {
		Text       *string         `json:"text"`
		CachePoint json.RawMessage `json:"cachePoint"`
	} `json:"system"`
	Inference struct {
		MaxTokens   *int     `json:"maxTokens"`
		Temperature *float64 `json:"temperature"`
		TopP        *float64 `json:"topP"`
		Stop        []string `json:"stopSequences"`
	} `json:"inferenceConfig"`
	Tools *struct {
		Tools []struct {
			Spec *struct {
				Name        string  `json:"name"`
				Description *string `json:"description"`
				Strict      *bool   `json:"strict"`
				Schema      struct {
					JSON map[string]any `json:"json"`
				} `json:"inputSchema"`
			} `json:"toolSpec"`
			System     json.RawMessage `json:"systemTool"`
			CachePoint json.RawMessage `json:"cachePoint"`
		} `json:"tools"`
		Choice map[string]struct {
			Name string `json:"name"`
		} `json:"toolChoice"`
	} `json:"toolConfig"`
	Output struct {
		Format struct {
			Type      string `json:"type"`
			Structure struct {
				Schema struct {
					Name        string `json:"name"`
					Description string `json:"description"`
					Schema      string `json:"schema"`
				} `json:"jsonSchema"`
			} `json:"structure"`
		} `json:"textFormat"`
	} `json:"outputConfig"`
	Extra struct {
		Thinking *struct {
			Type   string `json:"type"`
			Budget int    `json:"budget_tokens"`
		} `json:"thinking"`
	} `json:"-"`
	Additional  json.RawMessage `json:"additionalModelRequestFields"`
	Paths       json.RawMessage `json:"additionalModelResponseFieldPaths"`
	Guardrail   json.RawMessage `json:"guardrailConfig"`
	Performance json.RawMessage `json:"performanceConfig"`
	Variables   json.RawMessage `json:"promptVariables"`
	Metadata    json.RawMessage `json:"requestMetadata"`
	Tier        json.RawMessage `json:"serviceTier"`
}

// block is one of a message or of a tool's result.
type block struct {
	Text     *string `json:"text"`
	Image    *source `json:"image"`
	Document *source `json:"document"`
	Audio    *source `json:"audio"`
	Video    *source `json:"video"`
	ToolUse  *struct {
		ID    string         `json:"toolUseId"`
		Name  string         `json:"name"`
		Type  string         `json:"type"`
		Input map[string]any `json:"input"`
	} `json:"toolUse"`
	ToolResult *struct {
		ID      string  `json:"toolUseId"`
		Type    string  `json:"type"`
		Status  string  `json:"status"`
		Content []block `json:"content"`
	} `json:"toolResult"`
	Reasoning *struct {
		Text *struct {
			Text      string `json:"text"`
			Signature string `json:"signature"`
		} `json:"reasoningText"`
		Redacted []byte `json:"redactedContent"`
	} `json:"reasoningContent"`
	CachePoint json.RawMessage `json:"cachePoint"`
	JSON       json.RawMessage `json:"json"`
	Citations  json.RawMessage `json:"citationsContent"`
}

type source struct {
	Format    string          `json:"format"`
	Name      string          `json:"name"`
	Citations json.RawMessage `json:"citations"`
	Source    struct {
		Bytes []byte `json:"bytes"`
		Text  string `json:"text"`
	} `json:"source"`
}

// read takes what a script may want to know from a request, and refuses what Bedrock refuses.
func (f *bedrock) read(r *http.Request, body []byte) (Request, error) {
	path := strings.Split(r.URL.EscapedPath(), "/")
	model, _ := url.PathUnescape(path[len(path)-2])
	var in converse
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return Request{}, says("Malformed input request: %v, please reformat your input and try again.", err)
	}
	if len(in.Additional) > 0 {
		if err := json.Unmarshal(in.Additional, &in.Extra); err != nil {
			return Request{}, err
		}
	}
	if err := in.check(model); err != nil {
		return Request{}, err
	}
	schema := in.Output.Format.Structure.Schema.Schema
	req := Request{Model: model, Stream: strings.HasSuffix(r.URL.Path, "-stream"), Usage: true, JSON: schema != ""}
	if schema != "" {
		req.Schema = json.RawMessage(schema)
	}
	for _, s := range in.System {
		if s.Text != nil {
			req.Messages = append(req.Messages, Message{Role: "system", Content: *s.Text})
		}
	}
	for _, m := range in.Messages {
		var said strings.Builder
		for _, b := range m.Content {
			if b.Text != nil {
				said.WriteString(*b.Text)
			}
			if b.ToolResult != nil {
				for _, inner := range b.ToolResult.Content {
					if inner.Text != nil {
						said.WriteString(*inner.Text)
					}
				}
			}
		}
		req.Messages = append(req.Messages, Message{Role: m.Role, Content: said.String()})
	}
	if in.Tools != nil {
		for _, t := range in.Tools.Tools {
			if t.Spec != nil {
				req.Tools = append(req.Tools, t.Spec.Name)
			}
		}
	}
	return req, nil
}

var (
	bedrockName     = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	bedrockDocument = regexp.MustCompile(`^[a-zA-Z0-9\-()\[\]]+( [a-zA-Z0-9\-()\[\]]+)*$`)
)

func (in *converse) check(model string) error {
	claude := strings.Contains(model, "claude")
	if len(in.Messages) == 0 || in.Messages[0].Role != "user" {
		return says("A conversation must start with a user message. Try again with a conversation that starts with a user message.")
	}
	thinks := in.Extra.Thinking != nil && in.Extra.Thinking.Type == "enabled"
	documents := map[string]bool{}
	var calls []string // of the message before
	began := false     // with thinking, the assistant, since the user spoke last
	for i, m := range in.Messages {
		at := fmt.Sprintf("messages.%d", i)
		if m.Role != "user" && m.Role != "assistant" || i > 0 && m.Role == in.Messages[i-1].Role {
			return says("A conversation must alternate between user and assistant roles. Make sure the conversation alternates between user and assistant roles and try again.")
		}
		if len(m.Content) == 0 {
			return says("The content field in the Message object at %s is empty. Add a ContentBlock object to the content field and try again.", at)
		}
		var results, uses []string
		texts, files := 0, 0
		for j, b := range m.Content {
			at := fmt.Sprintf("%s.content.%d", at, j)
			if b.Text != nil {
				if texts++; strings.TrimSpace(*b.Text) == "" {
					return says("The text field in the ContentBlock object at %s is blank. Add text to the text field, and try again.", at)
				}
			}
			if d := b.Document; d != nil {
				if files++; !bedrockDocument.MatchString(d.Name) {
					return says("The document file name can only contain alphanumeric characters, whitespace characters, hyphens, parentheses, and square brackets. The name can't contain more than one consecutive whitespace character.")
				}
				if documents[d.Name] {
					return says("messages contains duplicate document names")
				}
				documents[d.Name] = true
			}
			if u := b.ToolUse; u != nil && u.Type == "" {
				if uses = append(uses, u.ID); m.Role != "assistant" || !bedrockName.MatchString(u.ID) || !bedrockName.MatchString(u.Name) || u.Input == nil {
					return says("Value at '%s.toolUse' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+", at)
				}
				if thinks && !began && i+1 < len(in.Messages) && i+3 > len(in.Messages) {
					return says("The model returned the following errors: %s.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block", at)
				}
			}
			if res := b.ToolResult; res != nil && res.Type == "" {
				results = append(results, res.ID)
				if res.Status == "error" && len(res.Content) == 0 {
					return says("The content field at %s.toolResult cannot be empty when status value is error.", at)
				}
			}
			if why := b.Reasoning; why != nil {
				began = began || j == 0
				if claude && why.Text != nil && why.Text.Signature != Signature(why.Text.Text) {
					return says("The model returned the following errors: %s: Invalid `signature` in `thinking` block", at)
				}
				if claude && j == len(m.Content)-1 {
					return says("The model returned the following errors: %s: The final block in an assistant message cannot be `thinking`.", at)
				}
			}
		}
		if files > 0 && texts == 0 {
			return says("The message at %s contains a document. A text block is required beside it.", at)
		}
		if (len(uses) > 0 || len(results) > 0) && in.Tools == nil {
			return says("The toolConfig field must be defined when using toolUse and toolResult content blocks.")
		}
		if missing := slices.DeleteFunc(slices.Clone(calls), func(id string) bool { return slices.Contains(results, id) }); len(missing) > 0 {
			return says("Expected toolResult blocks at %s.content for the following Ids: %s", at, strings.Join(missing, ", "))
		}
		if len(results) > len(calls) {
			return says("The number of toolResult blocks at %s.content exceeds the number of toolUse blocks of previous turn.", at)
		}
		if m.Role == "user" && texts > 0 {
			began = false
		}
		calls = uses
	}
	if len(calls) > 0 {
		return says("Expected toolResult blocks at messages.%d.content for the following Ids: %s", len(in.Messages), strings.Join(calls, ", "))
	}
	if in.Tools != nil {
		for i, t := range in.Tools.Tools {
			if t.Spec != nil && (!bedrockName.MatchString(t.Spec.Name) || t.Spec.Description != nil && *t.Spec.Description == "" || t.Spec.Schema.JSON == nil) {
				return says("Value at 'toolConfig.tools.%d.member.toolSpec' failed to satisfy constraint", i+1)
			}
			if len(t.CachePoint) > 0 && !claude {
				return says("The model returned the following errors: Malformed input request: #/toolConfig/tools/%d: extraneous key [cachePoint] is not permitted, please reformat your input and try again.", i)
			}
		}
	}
	if thinks {
		switch t := in.Inference; {
		case in.Extra.Thinking.Budget < 1024:
			return says("The model returned the following errors: thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
		case t.MaxTokens != nil && *t.MaxTokens <= in.Extra.Thinking.Budget:
			return says("The model returned the following errors: `max_tokens` must be greater than `thinking.budget_tokens`.")
		case t.Temperature != nil && *t.Temperature != 1:
			return says("The model returned the following errors: `temperature` may only be set to 1 when thinking is enabled.")
		case in.Tools != nil && len(in.Tools.Choice) > 0 && in.Tools.Choice["auto"].Name == "" && !hasKey(in.Tools.Choice, "auto"):
			return says("The model returned the following errors: Thinking may not be enabled when tool_choice forces tool use.")
		}
	}
	return nil
}

// says is a refusal in the words that Bedrock and its models use.
func says(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

func hasKey[V any](m map[string]V, key string) bool { _, ok := m[key]; return ok }

func bedrockModel(name string) any {
	return map[string]any{
		"modelId": name, "modelName": name, "providerName": "script", "inputModalities": []string{"TEXT"}, "outputModalities": []string{"TEXT"},
		"responseStreamingSupported": true, "inferenceTypesSupported": []string{"ON_DEMAND"},
	}
}
