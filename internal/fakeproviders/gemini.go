package fakeproviders

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// gemini is the format of Google's generateContent, as an event stream or in one piece. Models called gemini-3… sign their answers, and
// insist on signatures as the real ones do.
type gemini struct {
	model string
	tail  string // of every frame, from the counts' end on
}

func (f *gemini) kind() string { return "text/event-stream" }

// open sends nothing: the first event has the first token.
func (f *gemini) open(*writer) {}

func (f *gemini) text(a *writer, token string) {
	f.begin(a)
	a.buf = append(a.buf, `{"text": `...)
	a.buf = appendHTML(a.buf, token)
	a.buf = append(a.buf, '}')
	f.end(a, "")
}

func (f *gemini) reasoning(a *writer, token string) {
	f.begin(a)
	a.buf = append(a.buf, `{"text": `...)
	a.buf = appendHTML(a.buf, token)
	a.buf = append(a.buf, `,"thought": true}`...)
	f.end(a, "")
}

// call sends a call in one event, when the time of its tokens is over.
func (f *gemini) call(a *writer, i int, call ToolCall) bool {
	for range tokens(call.Arguments) {
		if !a.due() {
			return false
		}
		a.sent++
	}
	f.begin(a)
	f.appendCall(a, i, call)
	f.end(a, "")
	return a.paced()
}

// appendCall appends a call. The first of an answer is signed.
func (f *gemini) appendCall(a *writer, i int, call ToolCall) {
	args := compacted(call.Arguments)
	a.buf = append(a.buf, `{"functionCall": {`...)
	if call.ID != "" {
		a.buf = append(a.buf, `"id": `...)
		a.buf = appendHTML(a.buf, call.ID)
		a.buf = append(a.buf, ',')
	}
	a.buf = append(a.buf, `"name": `...)
	a.buf = appendHTML(a.buf, call.Name)
	a.buf = append(a.buf, `,"args": `...)
	a.buf = append(a.buf, args...)
	a.buf = append(a.buf, '}')
	if f.signs() && i == 0 {
		a.buf = append(a.buf, `,"thoughtSignature": "`+signatureOf(call.Name, canonical(args))+`"`...)
	}
	a.buf = append(a.buf, '}')
}

func compacted(text string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil {
		return string(appendHTML(nil, text)) // a script may ask for what is no JSON
	}
	return b.String()
}

// canonical writes JSON in one way.
func canonical(text string) string {
	var v any
	json.Unmarshal([]byte(text), &v) // what cannot be read is null
	out, _ := json.Marshal(v)        // of JSON: cannot fail
	return string(out)
}

func (f *gemini) signs() bool { return strings.HasPrefix(f.model, "gemini-3") }

// signatureOf is the signature of a part.
func signatureOf(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\n")))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func (f *gemini) close(a *writer) {
	f.begin(a)
	a.buf = append(a.buf, `{"text": ""`...)
	if f.signs() && len(a.answer.ToolCalls) == 0 {
		a.buf = append(a.buf, `,"thoughtSignature": "`+signatureOf(a.text())+`"`...)
	}
	a.buf = append(a.buf, '}')
	f.end(a, a.finish())
}

// begin appends what every event begins with, up to its part.
func (f *gemini) begin(a *writer) {
	a.buf = append(a.buf, `data: {"candidates": [{"content": {"parts": [`...)
}

// end appends what every event ends with.
func (f *gemini) end(a *writer, finish string) {
	f.because(a, finish)
	a.buf = append(a.buf, "\r\n\r\n"...)
}

func (f *gemini) because(a *writer, finish string) {
	a.buf = append(a.buf, `],"role": "model"}`...)
	prompt, completion := a.used()
	thoughts := count(a.answer.Reasoning)
	if finish != "" {
		reason, ok := map[string]string{"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}[finish]
		if !ok {
			reason = finish
		}
		a.buf = append(a.buf, `,"finishReason": `...)
		a.buf = appendHTML(a.buf, reason)
	} else {
		completion = min(completion, a.sent+1)
		thoughts = min(thoughts, completion)
	}
	a.buf = append(a.buf, `,"index": 0}],"usageMetadata": {"promptTokenCount": `...)
	a.buf = strconv.AppendInt(a.buf, int64(prompt), 10)
	if completion > thoughts {
		a.buf = append(a.buf, `,"candidatesTokenCount": `...)
		a.buf = strconv.AppendInt(a.buf, int64(completion-thoughts), 10)
	}
	a.buf = append(a.buf, `,"totalTokenCount": `...)
	a.buf = strconv.AppendInt(a.buf, int64(prompt+completion), 10)
	if thoughts > 0 {
		a.buf = append(a.buf, `,"thoughtsTokenCount": `...)
		a.buf = strconv.AppendInt(a.buf, int64(thoughts), 10)
	}
	if f.tail == "" {
		f.tail = `,"promptTokensDetails": [{"modality": "TEXT","tokenCount": ` + strconv.Itoa(prompt) + `}]},"modelVersion": ` +
			string(appendHTML(nil, f.model)) + `,"responseId": "script-` + strconv.Itoa(a.req.Attempt) + `"}`
	}
	a.buf = append(a.buf, f.tail...)
}

// refuse answers with an error as Google sends it.
func (f *gemini) refuse(w http.ResponseWriter, status int, body string) {
	names := map[int]string{
		400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ABORTED",
		429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
	}
	writeError(w, status, body, func(message string) any {
		return map[string]any{"error": map[string]any{"code": status, "message": message, "status": names[status]}}
	})
}

type geminiPart struct {
	Text             *string         `json:"text"`
	Thought          bool            `json:"thought"`
	ThoughtSignature string          `json:"thoughtSignature"`
	InlineData       json.RawMessage `json:"inlineData"`
	FileData         json.RawMessage `json:"fileData"`
	ExecutableCode   json.RawMessage `json:"executableCode"`
	CodeResult       json.RawMessage `json:"codeExecutionResult"`
	ToolCall         json.RawMessage `json:"toolCall"`
	ToolResponse     json.RawMessage `json:"toolResponse"`
	VideoMetadata    json.RawMessage `json:"videoMetadata"`
	FunctionCall     *struct {
		ID   string                     `json:"id"`
		Name string                     `json:"name"`
		Args map[string]json.RawMessage `json:"args"`
	} `json:"functionCall"`
	FunctionResponse *struct {
		ID       string                     `json:"id"`
		Name     string                     `json:"name"`
		Response map[string]json.RawMessage `json:"response"`
		Parts    json.RawMessage            `json:"parts"`
	} `json:"functionResponse"`
}

type geminiContent struct {
	Role  string       `json:"role"`
	Parts []geminiPart `json:"parts"`
}

// read takes what a script may want to know from a request's body, and refuses what Google refuses, in its words.
func (f *gemini) read(r *http.Request, body []byte) (Request, error) {
	name := r.URL.EscapedPath()
	name = name[strings.LastIndexByte(name, '/')+1:]
	name, action := name[:strings.LastIndexByte(name, ':')], name[strings.LastIndexByte(name, ':')+1:]
	f.model, _ = url.PathUnescape(name)
	var in struct {
		Contents          []geminiContent `json:"contents"`
		SystemInstruction geminiContent   `json:"systemInstruction"`
		Tools             []struct {
			FunctionDeclarations []struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				JSONSchema  json.RawMessage `json:"parametersJsonSchema"`
				Parameters  *geminiSchema   `json:"parameters"`
			} `json:"functionDeclarations"`
			GoogleSearch  json.RawMessage `json:"googleSearch"`
			CodeExecution json.RawMessage `json:"codeExecution"`
			URLContext    json.RawMessage `json:"urlContext"`
		} `json:"tools"`
		ToolConfig struct {
			FunctionCallingConfig struct {
				Mode    string   `json:"mode"`
				Allowed []string `json:"allowedFunctionNames"`
			} `json:"functionCallingConfig"`
		} `json:"toolConfig"`
		GenerationConfig struct {
			Temperature      *float64        `json:"temperature"`
			TopP             *float64        `json:"topP"`
			TopK             *float64        `json:"topK"`
			MaxOutputTokens  *int            `json:"maxOutputTokens"`
			StopSequences    []string        `json:"stopSequences"`
			Seed             *int            `json:"seed"`
			PresencePenalty  *float64        `json:"presencePenalty"`
			FrequencyPenalty *float64        `json:"frequencyPenalty"`
			MIMEType         string          `json:"responseMimeType"`
			JSONSchema       json.RawMessage `json:"responseJsonSchema"`
			Schema           *geminiSchema   `json:"responseSchema"`
			ThinkingConfig   struct {
				IncludeThoughts bool   `json:"includeThoughts"`
				Budget          *int   `json:"thinkingBudget"`
				Level           string `json:"thinkingLevel"`
			} `json:"thinkingConfig"`
		} `json:"generationConfig"`
		SafetySettings json.RawMessage `json:"safetySettings"`
		CachedContent  string          `json:"cachedContent"`
		ServiceTier    string          `json:"serviceTier"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			err = googles("Invalid JSON payload received. Unknown name %s: Cannot find field.", name)
		}
		return Request{}, err
	}
	g := &in.GenerationConfig
	req := Request{
		Model: f.model, Stream: strings.HasPrefix(action, "stream"), Usage: true, JSON: g.MIMEType == "application/json", Schema: g.JSONSchema,
	}
	t := g.ThinkingConfig
	switch {
	case t.Budget != nil && t.Level != "":
		return req, googles("You can only set only one of thinking budget and thinking level.")
	case t.Level != "" && !f.signs():
		return req, googles("Thinking level is not supported for this model.")
	case t.Level != "" && !slices.Contains([]string{"minimal", "low", "medium", "high"}, t.Level):
		return req, googles("Invalid value at 'generation_config.thinking_config.thinking_level', %q", t.Level)
	case len(g.JSONSchema) > 0 && !req.JSON:
		return req, googles("A response schema needs the response_mime_type application/json.")
	}
	for _, tool := range in.Tools {
		for _, d := range tool.FunctionDeclarations {
			if !functionName.MatchString(d.Name) {
				return req, googles("GenerateContentRequest.tools[0].function_declarations[0].name: Invalid function name. Must start with a letter or an underscore.")
			}
			req.Tools = append(req.Tools, d.Name)
		}
	}
	if len(in.SystemInstruction.Parts) > 0 {
		req.Messages = append(req.Messages, Message{"system", wordsOf(in.SystemInstruction)})
	}
	if err := f.check(in.Contents); err != nil {
		return req, err
	}
	for _, c := range in.Contents {
		m := Message{map[string]string{"user": "user", "model": "assistant"}[c.Role], wordsOf(c)}
		for _, p := range c.Parts {
			if p.FunctionResponse != nil {
				said, _ := json.Marshal(p.FunctionResponse.Response) // of JSON: cannot fail
				m.Role, m.Content = "tool", m.Content+string(said)
			}
		}
		req.Messages = append(req.Messages, m)
	}
	return req, nil
}

// geminiSchema is the subset of a schema that parameters may have.
type geminiSchema struct {
	Type                                                    string
	Title, Description, Format, Pattern                     string
	Nullable                                                bool
	Enum, Required, PropertyOrdering                        []string
	Items                                                   *geminiSchema
	AnyOf                                                   []geminiSchema
	Properties                                              map[string]geminiSchema
	MinItems, MaxItems, MinLength, MaxLength, MinProperties json.RawMessage
	MaxProperties, Minimum, Maximum, Example, Default       json.RawMessage
}

// googles makes an error in Google's words, which are sentences.
func googles(format string, args ...any) error { return fmt.Errorf(format, args...) }

var functionName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$`)

func wordsOf(c geminiContent) string {
	var b strings.Builder
	for _, p := range c.Parts {
		if p.Text != nil && !p.Thought {
			b.WriteString(*p.Text)
		}
	}
	return b.String()
}

// skipsValidator is the documented signature of a call that no Gemini has made.
const skipsValidator = "skip_thought_signature_validator"

// check holds a history to Google's rules.
func (f *gemini) check(contents []geminiContent) error {
	if len(contents) == 0 {
		return googles("* GenerateContentRequest.contents: contents is not specified")
	}
	current := 0 // where the current turn begins: at the user's last words
	for i, c := range contents {
		if c.Role == "user" && len(c.Parts) > 0 && c.Parts[0].FunctionResponse == nil {
			current = i
		}
	}
	waiting := []string(nil) // names and ids of the calls of the content before
	for i, c := range contents {
		role := "user"
		if i%2 == 1 {
			role = "model"
		}
		var calls, results []string
		for k, p := range c.Parts {
			switch {
			case p.Text != nil && *p.Text == "" && p.ThoughtSignature == "":
				return googles("Unable to submit request because it has an empty text parameter. Add a value to the parameter and try again.")
			case p.FunctionCall != nil:
				if len(calls) == 0 && f.signs() && i > current {
					args, _ := json.Marshal(p.FunctionCall.Args) // of JSON: cannot fail
					if err := checkSignature(p.ThoughtSignature, p.FunctionCall.Name, string(args), i+1); err != nil {
						return err
					}
				}
				calls = append(calls, p.FunctionCall.Name+" "+p.FunctionCall.ID)
			case p.FunctionResponse != nil:
				if p.FunctionResponse.Name == "" {
					return googles("* GenerateContentRequest.contents[%d].parts[%d].function_response.name: Name cannot be empty.", i, k)
				}
				results = append(results, p.FunctionResponse.Name+" "+p.FunctionResponse.ID)
			}
		}
		switch {
		case c.Role != "user" && c.Role != "model":
			return googles("Please use a valid role: user, model.")
		case len(c.Parts) == 0:
			return googles("* GenerateContentRequest.contents[%d].parts: contents.parts must not be empty.", i)
		case len(calls) > 0 && (c.Role != "model" || i == 0):
			return googles("Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
		case c.Role != role:
			return googles("Please ensure that multiturn requests alternate between user and model.")
		case len(results) > 0 && len(waiting) == 0:
			return googles("Please ensure that function response turn comes immediately after a function call turn.")
		case !slices.Equal(results, waiting):
			return googles("Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
		}
		waiting = calls
	}
	if contents[len(contents)-1].Role != "user" {
		return googles("Please ensure that multiturn requests ends with a user role or a function response.")
	}
	return nil
}

// checkSignature looks at the signature of the first call of a step.
func checkSignature(signature, name, args string, position int) error {
	switch {
	case signature == "":
		return googles("Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing "+
			"thought_signature may lead to degraded model performance. Additional data, function call `default_api:%s` , position %d. Please refer to "+
			"https://ai.google.dev/gemini-api/docs/thought-signatures for more details.", name, position)
	case signature == skipsValidator:
		return nil
	case signature != signatureOf(name, canonical(args)):
		return googles("Corrupted thought signature.")
	}
	return nil
}

func geminiModel(name string) any {
	return map[string]any{
		"name": name, "version": "001", "displayName": name[strings.LastIndexByte(name, '/')+1:], "inputTokenLimit": 1 << 20,
		"outputTokenLimit": 1 << 16, "supportedGenerationMethods": []string{"generateContent", "countTokens"},
	}
}
