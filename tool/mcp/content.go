package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tool"
)

// tool makes one of ours of a server's.
func (s *server) tool(f *sdk.Tool) (*tool.Tool, error) {
	if f.Name == "" {
		return nil, errors.New("it has no name")
	}
	schema, err := json.Marshal(f.InputSchema)
	if err != nil {
		return nil, err
	}
	if len(schema) > maxSchema {
		return nil, fmt.Errorf("its schema has %d bytes; expected at most %d", len(schema), maxSchema)
	}
	if string(schema) == "null" {
		schema = nil
	}
	t := &tool.Tool{
		Name: name(s.Name, f.Name), Description: wording.ClipTo(f.Description, maxDescription), Schema: schema,
		Timeout: s.Timeout, Approval: tool.Always, Role: s.Role, Lenient: true,
	}
	if hints := f.Annotations; hints != nil {
		t.Idempotent = hints.IdempotentHint || hints.ReadOnlyHint
	}
	for _, free := range s.Free {
		if free == "*" || free == f.Name {
			t.Approval = tool.Never
		}
	}
	remote := f.Name
	t.Run = func(ctx context.Context, c tool.Call) (tool.Result, error) { return s.call(ctx, remote, c) }
	return t, nil
}

var otherCharacters = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// name returns our name of a server's tool. A name that is too long or has other characters gets a hash.
func name(server, remote string) string {
	if full := "mcp." + server + "." + remote; tool.CheckName(full) == nil {
		return full
	}
	return hashedName(server, remote)
}

// hashedName returns a name that no other tool of the server has.
func hashedName(server, remote string) string {
	sum := sha256.Sum256([]byte(remote))
	start, mark := "mcp."+server+".", "-"+hex.EncodeToString(sum[:4])
	clean := otherCharacters.ReplaceAllString(remote, "_")
	return start + clean[:min(len(clean), tool.MaxName-len(start)-len(mark))] + mark
}

// resultOf makes a result of what a server answered: its texts joined, or what is structured as JSON, and images as parts.
func resultOf(r *sdk.CallToolResult) tool.Result {
	var texts []string
	var parts []tool.Part
	for _, c := range r.Content {
		if text, part := read(c); part.Type != "" {
			parts = append(parts, part)
		} else {
			texts = append(texts, text)
		}
	}
	text := strings.Join(texts, "\n")
	if r.IsError {
		if text == "" {
			text = "the tool failed without a reason"
		}
		return tool.Result{Err: &tool.Error{Kind: tool.KindFailed, Message: text}}
	}
	out := tool.Text(text)
	if r.StructuredContent != nil {
		if structured, rest, err := separate(r.StructuredContent, texts); err == nil {
			out.Content = structured
			if len(rest) > 0 {
				parts = append([]tool.Part{{Type: "text", Text: strings.Join(rest, "\n")}}, parts...)
			}
		}
	}
	out.Parts = parts
	return out
}

// separate returns the structured content of a result as JSON, and the texts that do not repeat it: most servers send both, for clients that
// read only one of them. A text with the JSON is preferred, since the SDK reads numbers as floats. Servers that wrap a value as
// {"result": value} repeat the value alone, and a list as one text for each item.
func separate(structured any, texts []string) (content json.RawMessage, rest []string, err error) {
	values := []any{structured}
	if object, ok := structured.(map[string]any); ok && len(object) == 1 && object["result"] != nil {
		values = append(values, object["result"])
	}
	if content, err = rawjson.Marshal(structured); err != nil {
		return nil, nil, err
	}
	for _, value := range values {
		if items, ok := value.([]any); ok && slices.EqualFunc(texts, items, mirrors) {
			return content, nil, nil
		}
	}
	for _, text := range append(texts, strings.Join(texts, "\n")) {
		if json.Valid([]byte(text)) && mirrors(text, structured) {
			var exact bytes.Buffer
			_ = json.Compact(&exact, []byte(text)) // it is valid
			content = exact.Bytes()
		}
	}
	if slices.ContainsFunc(values, func(value any) bool { return mirrors(strings.Join(texts, "\n"), value) }) {
		return content, nil, nil
	}
	return content, slices.DeleteFunc(slices.Clone(texts), func(text string) bool {
		return slices.ContainsFunc(values, func(value any) bool { return mirrors(text, value) })
	}), nil
}

// mirrors reports whether a text says the same as a value: it is the value's JSON, or the value is that text.
func mirrors(text string, value any) bool {
	if s, ok := value.(string); ok && s == text {
		return true
	}
	var same any
	return json.Unmarshal([]byte(text), &same) == nil && reflect.DeepEqual(same, value)
}

// images are the types that models take.
var images = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// read is a piece of content as text, or as an image or a file that models can read. Other content becomes a note.
func read(c sdk.Content) (text string, part tool.Part) {
	switch c := c.(type) {
	case *sdk.TextContent:
		return c.Text, part
	case *sdk.ImageContent:
		return media("an image", c.MIMEType, "", c.Data)
	case *sdk.AudioContent:
		return media("a sound", c.MIMEType, "", c.Data)
	case *sdk.ResourceLink:
		return fmt.Sprintf("[a link to %s: %s]", c.Name, c.URI), part
	case *sdk.EmbeddedResource:
		switch r := c.Resource; {
		case r == nil:
			return "[an empty resource]", part
		case r.Blob != nil:
			return media("a file", r.MIMEType, path.Base(r.URI), r.Blob)
		default:
			return r.Text, part
		}
	}
	return "[unsupported content]", part
}

func media(what, mime, name string, data []byte) (text string, part tool.Part) {
	kind := adapter.MediaKind(mime)
	switch {
	case images[mime]:
		return "", tool.Part{Type: "image_url", Image: adapter.DataURL(mime, data)}
	case kind == adapter.KindPDF, kind == adapter.KindAudio:
		return "", tool.Part{Type: "file", File: adapter.DataURL(mime, data), Name: name}
	}
	return fmt.Sprintf("[%s of type %s, %d bytes, left out]", what, wording.ClipTo(strings.ToValidUTF8(mime, ""), 64), len(data)), part
}
