package gemini

import (
	"bytes"
	"encoding/json"
	"maps"
	"mime"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

const (
	signature = "thoughtSignature"
	// skipValidator is what Google's documents give as the signature of a call that no Gemini has made
	// (ai.google.dev/gemini-api/docs/thought-signatures, the questions at its end).
	skipValidator = "skip_thought_signature_validator"
)

// content is what one side says until the other one does.
type content struct {
	Role  string `json:"role"`
	Parts []any  `json:"parts"`
}

// history writes the parts of messages.
type history struct {
	*model
	calls map[string]object // that were sent, by id
}

// history writes messages as contents.
func (a *asking) history(messages []adapter.Message) (contents []content, system []any, err error) {
	turns, err := wire.NewTurns(&history{a.model, map[string]object{}}, messages, false)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range turns.List {
		c := content{Role: "user", Parts: t.Content}
		if t.Role == adapter.Assistant {
			c.Role = "model"
			a.sign(c.Parts)
		} else {
			c.Parts = filesLast(c.Parts)
		}
		contents = append(contents, c)
	}
	return contents, turns.System, nil
}

// sign adds a signature to the first call of a step if it has none and the model insists on one.
func (a *asking) sign(parts []any) {
	first := slices.IndexFunc(parts, func(p any) bool { return p.(object)["functionCall"] != nil })
	if first < 0 || parts[first].(object)[signature] != nil {
		return
	}
	if a.foreign = true; a.signs() {
		parts[first].(object)[signature] = skipValidator
	}
}

// filesLast puts the results of a turn first, and the files that do not fit into them behind all of them.
func filesLast(parts []any) []any {
	var results, others []any
	for _, p := range parts {
		if group, ok := p.([]any); ok {
			results, others = append(results, group[0]), append(others, group[1:]...)
		} else {
			others = append(others, p)
		}
	}
	return append(results, others...)
}

// Text and the next ones write parts, as [wire.Blocks] has them.
func (h *history) Text(s string, beside json.RawMessage) any {
	p := members(beside)
	p["text"] = s
	return p
}

// Thinking leaves out thoughts without a signature: Google wants signed parts back, and a summary of thoughts would only cost tokens.
func (h *history) Thinking(made *adapter.MadePart) any {
	p := members(made.Data)
	if p[signature] == nil {
		return nil
	}
	p["text"], p["thought"] = made.Text, true
	return p
}

func (h *history) Other(data json.RawMessage) (any, bool) {
	return members(data), false
}

func (h *history) Call(id, name string, input, beside json.RawMessage) any {
	call := object{"name": name, "args": json.RawMessage(bytes.ToValidUTF8(input, []byte("\uFFFD")))}
	p := members(beside)
	if own := p["id"]; own != nil { // Google's, and not one that the adapter has made
		call["id"] = own
		delete(p, "id")
	}
	p["functionCall"], h.calls[id] = call, call
	return p
}

// Result writes a result of a tool: JSON as it is, anything else as a string. Files that the model does not take in it are behind it.
func (h *history) Result(id string, content []any, failed bool) any {
	said := ""
	var files []any
	for _, p := range content {
		if t, ok := p.(object)["text"].(string); ok {
			said += t
		} else {
			files = append(files, p)
		}
	}
	r := maps.Clone(h.calls[id]) // the name, and the id where there is one
	delete(r, "args")
	var output any = said
	if json.Valid([]byte(said)) {
		output = json.RawMessage(strings.ToValidUTF8(said, "\uFFFD"))
	}
	if r["response"] = (object{"output": output}); failed {
		r["response"] = object{"error": output}
	}
	if h.generation >= 30 && len(files) > 0 {
		r["parts"], files = files, nil
	}
	return append([]any{object{"functionResponse": r}}, files...)
}

// members reads an object; an empty one if it is missing.
func members(raw json.RawMessage) object {
	var all map[string]json.RawMessage
	json.Unmarshal(raw, &all) // nil is empty
	o := make(object, len(all)+2)
	for name, value := range all {
		o[name] = value
	}
	return o
}

// File makes a part of a data: URL, or of the address of a file.
func (h *history) File(p *adapter.Part) (any, error) {
	address := p.Image + p.File
	d, isData := wire.ReadData(address)
	switch {
	case isData && sent.MatchString(d.Type):
		return object{"inlineData": object{"mimeType": d.Type, "data": d.Base64}}, nil
	case isData && textual.MatchString(d.Type):
		return object{"inlineData": object{"mimeType": "text/plain", "data": d.Base64}}, nil
	case isData:
		return nil, h.cannot("files of the type " + strconv.QuoteToASCII(d.Type[:min(len(d.Type), 60)]))
	}
	u, err := url.Parse(address)
	if err != nil || !wire.IsWeb(address) && u.Scheme != "gs" {
		return nil, h.cannot("a file with an address that is neither a data: URL nor http(s)")
	}
	f := object{"fileUri": address}
	kind, _, _ := strings.Cut(mime.TypeByExtension(path.Ext(u.Path)), ";")
	switch {
	case textual.MatchString(kind):
		kind = "text/plain"
	case kind == "" && p.Image != "":
		kind = "image/jpeg" // Vertex AI wants a type, and looks at the file itself
	}
	if kind != "" {
		f["mimeType"] = kind
	}
	return object{"fileData": f}, nil
}

func (h *history) cannot(what string) error {
	return h.p.CannotTake("takes images, PDF, audio, video and text, but not " + what)
}

var (
	sent    = regexp.MustCompile(`^(image|audio|video)/|^application/pdf$`)
	textual = regexp.MustCompile(`^text/|(json|xml|yaml|javascript)$`) // sent as plain text
)
