package webhook

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/internal/wording"
)

// message is the body of a message that comes in.
type message struct {
	sender       person
	conversation place
	text         string
	mentioned    *bool // nil: the sender does not say
	media        []medium
}

type person struct{ id, name string }

type place struct {
	id     string
	kind   channel.ChatType
	thread string
}

type medium struct {
	mime string
	data []byte
}

const (
	maxName  = 256 // bytes of an id or a name
	maxMedia = 16  // of one message
)

// parse understands a body. An error says what was expected, and repeats nothing of what was sent but names of members.
func parse(body []byte) (*message, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("the body is not UTF-8; send UTF-8")
	}
	m := new(message)
	err := object(body, "", map[string]func(string, json.RawMessage) error{
		"sender": func(at string, v json.RawMessage) error {
			return object(v, at, map[string]func(string, json.RawMessage) error{
				"id": name(&m.sender.id), "name": name(&m.sender.name),
			}, "id")
		},
		"conversation": func(at string, v json.RawMessage) error {
			return object(v, at, map[string]func(string, json.RawMessage) error{
				"id": name(&m.conversation.id), "thread": name(&m.conversation.thread), "kind": func(at string, v json.RawMessage) error {
					var kind string
					if err := text(&kind)(at, v); err != nil {
						return err
					}
					switch m.conversation.kind = channel.ChatType(kind); m.conversation.kind {
					case channel.Direct, channel.Group, channel.Broadcast:
						return nil
					}
					return fmt.Errorf("%s: expected direct, group or channel", at)
				},
			}, "id", "kind")
		},
		"text": text(&m.text),
		"mentioned": func(at string, v json.RawMessage) error {
			m.mentioned = new(bool)
			if string(v) == "null" || json.Unmarshal(v, m.mentioned) != nil {
				return fmt.Errorf("%s: expected true or false", at)
			}
			return nil
		},
		"media": func(at string, v json.RawMessage) error {
			var list []json.RawMessage
			if string(v) == "null" || json.Unmarshal(v, &list) != nil {
				return fmt.Errorf("%s: expected a list", at)
			}
			if len(list) > maxMedia {
				return fmt.Errorf("%s: expected at most %d", at, maxMedia)
			}
			for i, v := range list {
				var one medium
				err := object(v, fmt.Sprintf("%s/%d", at, i), map[string]func(string, json.RawMessage) error{
					"type": func(at string, v json.RawMessage) error {
						var s string
						if err := text(&s)(at, v); err != nil {
							return err
						}
						var err error
						if one.mime, _, err = mime.ParseMediaType(s); err != nil || !strings.Contains(one.mime, "/") {
							return fmt.Errorf("%s: expected a media type, such as image/png", at)
						}
						return nil
					},
					"data": func(at string, v json.RawMessage) error {
						var s string
						err := text(&s)(at, v)
						if err == nil {
							one.data, err = base64.StdEncoding.DecodeString(s)
						}
						if err != nil || len(one.data) == 0 {
							return fmt.Errorf("%s: expected base64", at)
						}
						return nil
					},
				}, "type", "data")
				if err != nil {
					return err
				}
				m.media = append(m.media, one)
			}
			return nil
		},
	}, "sender", "conversation")
	if err == nil && strings.TrimSpace(m.text) == "" && len(m.media) == 0 {
		err = errors.New("expected text, media, or both")
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// object reads an object whose members are known: each once, by its very name. encoding/json would take others for them.
func object(v []byte, at string, members map[string]func(at string, v json.RawMessage) error, required ...string) error {
	d := json.NewDecoder(bytes.NewReader(v))
	where := func() string {
		if at == "" {
			return "the body"
		}
		return at
	}
	wrong := func() error { return fmt.Errorf("%s: expected a JSON object", where()) }
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return wrong()
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		key, ok := t.(string)
		if err != nil || !ok {
			return wrong()
		}
		read, known := members[key]
		switch {
		case !known:
			return fmt.Errorf("%s: unknown field", wording.Clip(at+"/"+key))
		case seen[key]:
			return fmt.Errorf("%s/%s: occurs twice; remove one", at, key)
		}
		seen[key] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return wrong()
		}
		if err := read(at+"/"+key, value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return wrong()
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return wrong()
	}
	for _, key := range required {
		if !seen[key] {
			return fmt.Errorf("%s/%s: is missing", at, key)
		}
	}
	return nil
}

func text(to *string) func(string, json.RawMessage) error {
	return func(at string, v json.RawMessage) error {
		if string(v) == "null" || json.Unmarshal(v, to) != nil {
			return fmt.Errorf("%s: expected text", at)
		}
		return nil
	}
}

// name is text that names something: not blank, and not long.
func name(to *string) func(string, json.RawMessage) error {
	return func(at string, v json.RawMessage) error {
		if err := text(to)(at, v); err != nil {
			return err
		}
		if strings.TrimSpace(*to) == "" || len(*to) > maxName || strings.ContainsRune(*to, 0) {
			return fmt.Errorf("%s: expected 1 to %d bytes, not only spaces", at, maxName)
		}
		return nil
	}
}
