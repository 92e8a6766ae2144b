package tool

import (
	"encoding/json"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// Result is the outcome of a call: a value with parts, or an error. [Result.Value] is its form on a tape.
type Result struct {
	ID   string `json:"id"`   // of the call
	Name string `json:"name"` // of the tool; of an unknown one what the model wrote
	// Content is JSON; a string is text that a model gets as it is.
	Content json.RawMessage `json:"content,omitempty"`
	// Parts are what is not text (images), in order, with the texts between. They come after Content.
	Parts []Part `json:"parts,omitempty"`
	// Err says what went wrong; then there is nothing else.
	Err *Error `json:"error,omitempty"`
}

// Part is a piece of a result: text, or an image or another file by URL or as data ("data:image/png;base64,…").
type Part struct {
	Type  string `json:"type"` // "text", "image_url" or "file"
	Text  string `json:"text,omitempty"`
	Image string `json:"image_url,omitempty"`
	File  string `json:"file,omitempty"`
	Name  string `json:"name,omitempty"` // of the file
}

// Text is a result of text.
func Text(s string) Result {
	text, _ := rawjson.Marshal(s) // a string always has a JSON text
	return Result{Content: text}
}

// Value is the result as one JSON value: {"error":…}, the content, or, where there are parts, a list of parts in the shape that
// OpenAI gave them ({"type":"text","text":…}, {"type":"image_url","image_url":{"url":…}}, {"type":"file","file":{"file_data":…}}), the content being the first.
func (r Result) Value() json.RawMessage {
	switch {
	case r.Err != nil:
		text, _ := rawjson.Marshal(map[string]*Error{"error": r.Err})
		return text
	case len(r.Parts) == 0 && len(r.Content) == 0:
		return json.RawMessage(`""`)
	case len(r.Parts) == 0:
		return r.Content
	}
	list := make([]chatPart, 0, 1+len(r.Parts))
	if text := r.text(); text != "" {
		list = append(list, chatPart{Type: "text", Text: &text})
	}
	for _, p := range r.Parts {
		switch {
		case p.Type == "text":
			list = append(list, chatPart{Type: "text", Text: &p.Text})
		case p.File != "":
			list = append(list, chatPart{Type: "file", File: &fileData{p.Name, p.File}})
		default:
			list = append(list, chatPart{Type: p.Type, Image: &imageURL{p.Image}})
		}
	}
	text, _ := rawjson.Marshal(list)
	return text
}

type (
	chatPart struct {
		Type  string    `json:"type"`
		Text  *string   `json:"text,omitempty"`
		Image *imageURL `json:"image_url,omitempty"`
		File  *fileData `json:"file,omitempty"`
	}
	imageURL struct {
		URL string `json:"url"`
	}
	fileData struct {
		Name string `json:"filename,omitempty"`
		Data string `json:"file_data"`
	}
)

// text is the content as text: a string as it is, anything else as JSON.
func (r Result) text() (text string) {
	if len(r.Content) > 0 && r.Content[0] == '"' && json.Unmarshal(r.Content, &text) == nil {
		return text
	}
	return string(r.Content)
}

// Text is the result as a model reads it where it takes nothing but text: a string as it is, anything else as JSON, and of parts
// the texts.
func (r Result) Text() string {
	if r.Err != nil {
		return string(r.Value())
	}
	text := r.text()
	for _, p := range r.Parts {
		if p.Text != "" {
			if text != "" {
				text += "\n"
			}
			text += p.Text
		}
	}
	return text
}

// Kinds of an [Error].
const (
	KindUnknown     = "unknown_tool"      // no tool has that name
	KindArguments   = "invalid_arguments" // no JSON, or not what the schema says
	KindFailed      = "failed"            // the tool says so
	KindPanic       = "panic"             // the tool crashed
	KindTimeout     = "timeout"           // it took too long
	KindDenied      = "denied"            // a person, or a rule, says no
	KindInterrupted = "interrupted"       // the turn ended first
	KindUnavailable = "unavailable"       // what the tool needs is not there now
	// KindUnknownOutcome is the kind of a call that was running when the server stopped: it may have had its effect.
	KindUnknownOutcome = "unknown_outcome"
)

// Error is a result that says what went wrong, in words for the model.
type Error struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Message }
