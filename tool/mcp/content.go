package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lingserve/lingserve/adapter"
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

// name returns our name of a server's tool. A name that is too long or has other characters gets a hash.
func name(server, remote string) string {
	full := "mcp." + server + "." + remote
	if remote != "" && len(full) <= tool.MaxName && clean(remote) == remote {
		return full
	}
	return hashed(server, remote)
}

// hashed is the name that no other tool of the server has.
func hashed(server, remote string) string {
	sum := sha256.Sum256([]byte(remote))
	mark := "-" + hex.EncodeToString(sum[:4])
	start := "mcp." + server + "."
	rest := clean(remote)
	if room := tool.MaxName - len(start) - len(mark); len(rest) > room {
		rest = strings.TrimRight(rest[:room], ".")
	}
	return start + rest + mark
}

// clean replaces what no name of a tool has: other characters, and segments of nothing.
func clean(remote string) string {
	var b strings.Builder
	for i, r := range []byte(remote) {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			b.WriteByte(r)
		case r == '.' && i > 0 && i < len(remote)-1 && remote[i-1] != '.':
			b.WriteByte(r)
		default:
			b.WriteByte('_')
		}
	}
	return b.String()
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
	if text, ok := r.StructuredContent.(string); ok { // see exact
		structured := json.RawMessage(text)
		out.Content = structured
		if rest := strings.Join(withoutMirror(texts, structured), "\n"); rest != "" {
			parts = append([]tool.Part{{Type: "text", Text: rest}}, parts...)
		}
	}
	out.Parts = parts
	return out
}

// withoutMirror returns the texts of a result without those that repeat its structured content: most servers send both, for clients that read
// only one of them. Servers that wrap a value as {"result": value} repeat the value alone, and a list as one text for each item.
func withoutMirror(texts []string, structured json.RawMessage) []string {
	var whole any
	if json.Unmarshal(structured, &whole) != nil {
		return texts
	}
	values := []any{whole}
	if object, ok := whole.(map[string]any); ok && len(object) == 1 {
		if value, ok := object["result"]; ok {
			values = append(values, value)
		}
	}
	for _, value := range values {
		if mirrors(strings.Join(texts, "\n"), value) {
			return nil
		}
		if items, ok := value.([]any); ok && slices.EqualFunc(texts, items, mirrors) {
			return nil
		}
	}
	return slices.DeleteFunc(slices.Clone(texts), func(text string) bool {
		return slices.ContainsFunc(values, func(value any) bool { return mirrors(text, value) })
	})
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
