package webhook

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/platform"
	"github.com/lingserve/lingserve/internal/schema"
	"github.com/lingserve/lingserve/internal/wording"
)

// message is a message of the backend.
type message struct {
	id           string              // webhook-id
	Sender       channel.SenderFacts // ID and Name
	Conversation conversation
	Text         string
	Mentioned    *bool // nil: the sender does not say
	Media        []file
	files        []platform.Attachment // of Media
}

// conversation is where messages and replies belong.
type conversation struct {
	ID     string           `json:"id"`
	Kind   channel.ChatType `json:"kind"`
	Thread string           `json:"thread,omitempty"`
}

type file struct {
	Type string
	Data string // base64
}

const maxName = 256 // bytes of an id or a name

//go:embed message.schema.json
var schemaText []byte

// messageSchema is the schema of bodies. It lets nothing pass that encoding/json takes for something else.
var messageSchema = func() *schema.Schema {
	s, err := schema.Compile(schemaText)
	if err != nil {
		panic("webhook: " + err.Error())
	}
	return s
}()

// parse reads a body. An error repeats nothing of the body but names of members.
func parse(body []byte) (*message, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("the body is not UTF-8; send UTF-8")
	}
	if found := messageSchema.CheckText(body, 1); len(found) > 0 {
		path := cmp.Or(wording.Clip(schema.Pointer(found[0].At)), "the body")
		return nil, errors.New(path + ": " + found[0].Message)
	}
	m := new(message)
	if json.Unmarshal(body, m) != nil {
		return nil, errors.New("the body: expected a JSON object")
	}
	return m, m.check()
}

// check checks what the schema cannot say, and decodes the files.
func (m *message) check() error {
	for i, name := range []string{m.Sender.ID, m.Sender.Name, m.Conversation.ID, m.Conversation.Thread} {
		if name != "" && strings.TrimSpace(name) == "" || len(name) > maxName || strings.ContainsRune(name, 0) {
			path := [...]string{"/sender/id", "/sender/name", "/conversation/id", "/conversation/thread"}[i]
			return fmt.Errorf("%s: expected 1 to %d bytes, not only spaces", path, maxName)
		}
	}
	for i, f := range m.Media {
		mediaType, _, err := mime.ParseMediaType(f.Type)
		if err != nil || !strings.Contains(mediaType, "/") {
			return fmt.Errorf("/media/%d/type: expected a media type, such as image/png", i)
		}
		data, err := base64.StdEncoding.DecodeString(f.Data)
		if err != nil || len(data) == 0 {
			return fmt.Errorf("/media/%d/data: expected base64", i)
		}
		sum, ending := sha256.Sum256(data), ""
		if known, err := mime.ExtensionsByType(mediaType); err == nil && len(known) > 0 {
			ending = known[len(known)-1]
		}
		fact := channel.MediaFacts([]channel.MediaFact{{ContentType: mediaType, Size: int64(len(data))}}, channel.MediaFact{})[0]
		m.files = append(m.files, platform.Attachment{Fact: fact, ID: hex.EncodeToString(sum[:16]), Ending: ending, Source: string(data)})
	}
	if strings.TrimSpace(m.Text) == "" && len(m.Media) == 0 {
		return errors.New("expected text, media, or both")
	}
	return nil
}
