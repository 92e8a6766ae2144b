package feishu

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/media"
)

// attachment is a file that a message has.
type attachment struct {
	media.Attachment
	message string // whose it is
	key     string // of the file
	image   bool   // of the platform's two kinds of files
}

// words is what a message says.
type words struct {
	text  string       // with the keys of those who are mentioned
	files []attachment // in order
	all   bool         // everybody is mentioned
}

// everybody is the key of a mention of all.
const everybody = "@_all"

// node is a piece of a rich text.
type node struct {
	Tag      string `json:"tag"`
	Text     string `json:"text"`
	Href     string `json:"href"`
	User     string `json:"user_id"`
	UserName string `json:"user_name"`
	Image    string `json:"image_key"`
	File     string `json:"file_key"`
	Emoji    string `json:"emoji_type"`
	Language string `json:"language"`
}

// post is a rich text, in one language or by language.
type post struct {
	Title   string   `json:"title"`
	Content [][]node `json:"content"`
}

// read takes a message apart. Content that is not of the form that its type has says nothing.
func (m *message) read() words {
	var w words
	var c struct {
		post
		Text     string          `json:"text"`
		Image    string          `json:"image_key"`
		File     string          `json:"file_key"`
		Name     string          `json:"file_name"`
		Duration int64           `json:"duration"` // milliseconds
		Place    string          `json:"name"`
		Lat      text            `json:"latitude"`
		Lon      text            `json:"longitude"`
		Chat     string          `json:"chat_id"`
		User     string          `json:"user_id"`
		Summary  string          `json:"summary"`
		Topic    string          `json:"topic"`
		Elements json.RawMessage `json:"elements"`
	}
	raw := []byte(m.Content)
	if m.Type == "post" {
		var p post
		var languages map[string]post
		if json.Unmarshal(raw, &p) == nil && p.Content == nil && json.Unmarshal(raw, &languages) == nil {
			for _, name := range sortedKeys(languages) { // the same one each time
				if p = languages[name]; p.Content != nil {
					break
				}
			}
		}
		m.readPost(&w, p)
		return w
	}
	if json.Unmarshal(raw, &c) != nil {
		c.Text = ""
	}
	add := func(kind channel.MediaKind, key, contentType string, image bool) {
		if key == "" {
			return
		}
		w.files = append(w.files, attachment{message: m.ID, key: key, image: image, Attachment: media.Attachment{Name: c.Name, Fact: channel.MediaFact{
			Kind: kind, ContentType: contentType, MessageID: m.ID, Duration: time.Duration(c.Duration) * time.Millisecond,
		}}})
	}
	switch m.Type {
	case "text":
		w.text = c.Text
		w.all = strings.Contains(c.Text, everybody)
	case "image":
		add(channel.MediaImage, c.Image, "", true)
	case "file":
		add(kindOfName(c.Name), c.File, "", false)
	case "audio":
		add(channel.MediaAudio, c.File, "audio/ogg", false)
	case "media":
		add(channel.MediaVideo, c.File, "video/mp4", false)
	case "sticker":
		w.text = "[sticker]"
	case "location":
		w.text = fmt.Sprintf("[location: %s, %s, %s]", c.Place, c.Lat, c.Lon)
	case "share_chat":
		w.text = fmt.Sprintf("[chat: %s]", c.Chat)
	case "share_user":
		w.text = fmt.Sprintf("[contact: %s]", c.User)
	case "merge_forward":
		w.text = "[forwarded messages]"
	case "folder":
		w.text = fmt.Sprintf("[folder %q]", c.Name)
	case "interactive":
		var elements [][]node // what the platform shows of a card to others
		_ = json.Unmarshal(c.Elements, &elements)
		if m.readPost(&w, post{Title: c.Title, Content: elements}); strings.TrimSpace(w.text) == "" {
			w.text = "[card]"
		}
		w.files = nil // of a card, they cannot be loaded
	case "todo", "vote", "hongbao", "calendar", "share_calendar_event", "general_calendar", "video_chat":
		w.text = "[" + strings.ReplaceAll(m.Type, "_", " ") + "]"
		if more := strings.TrimSpace(c.Summary + " " + c.Topic); more != "" {
			w.text = "[" + strings.ReplaceAll(m.Type, "_", " ") + ": " + more + "]"
		}
	}
	return w
}

// text is a text that may be written as a number.
type text string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *text) UnmarshalJSON(data []byte) error {
	*t = text(strings.Trim(string(data), `"`))
	return nil
}

func sortedKeys(m map[string]post) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// kindOfName is the kind of a file by the end of its name, which is all that the platform says of it.
func kindOfName(name string) channel.MediaKind {
	switch media.Ending(name) {
	case ".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp":
		return channel.MediaImage
	case ".mp3", ".ogg", ".opus", ".wav", ".m4a", ".flac":
		return channel.MediaAudio
	case ".mp4", ".mov", ".webm", ".mkv":
		return channel.MediaVideo
	}
	return channel.MediaDocument
}

func (m *message) readPost(w *words, p post) {
	var b strings.Builder
	if p.Title != "" {
		b.WriteString(p.Title + "\n")
	}
	for i, line := range p.Content {
		if i > 0 {
			b.WriteByte('\n')
		}
		for _, n := range line {
			switch n.Tag {
			case "text", "md":
				b.WriteString(n.Text)
			case "a":
				b.WriteString(n.Text)
				if n.Href != "" && strings.TrimSuffix(n.Href, "/") != strings.TrimSuffix(n.Text, "/") {
					b.WriteString(" (" + n.Href + ")")
				}
			case "at":
				switch {
				case n.User == "all" || n.User == everybody:
					w.all = true
					b.WriteString(everybody)
				case strings.HasPrefix(n.User, "@"):
					b.WriteString(n.User) // a key, as in a plain text
				default:
					b.WriteString("@" + n.UserName)
				}
			case "img":
				if n.Image != "" {
					w.files = append(w.files, attachment{message: m.ID, key: n.Image, image: true, Attachment: media.Attachment{Fact: channel.MediaFact{
						Kind: channel.MediaImage, MessageID: m.ID,
					}}})
				}
			case "media":
				if n.File != "" {
					w.files = append(w.files, attachment{message: m.ID, key: n.File, Attachment: media.Attachment{Fact: channel.MediaFact{
						Kind: channel.MediaVideo, ContentType: "video/mp4", MessageID: m.ID,
					}}})
				}
			case "emotion":
				b.WriteString("[" + n.Emoji + "]")
			case "hr":
				b.WriteString("---")
			case "code_block":
				b.WriteString("```" + strings.ToLower(n.Language) + "\n" + strings.TrimSuffix(n.Text, "\n") + "\n```")
			}
		}
	}
	w.text = b.String()
}

// named is a text with the names of those who are mentioned in the place of their keys, and without the bot's own. A blank goes with
// a name that is taken out, where there would be two or one at the start of a line.
func named(text string, mentions []mention, me string) string {
	var b strings.Builder
	for at := 0; at < len(text); {
		i := strings.Index(text[at:], "@_")
		if i < 0 {
			b.WriteString(text[at:])
			break
		}
		b.WriteString(text[at : at+i])
		at += i
		key := keyAt(text[at:])
		end := at + len(key)
		switch n := slices.IndexFunc(mentions, func(m mention) bool { return m.Key == key }); {
		case key == everybody:
			b.WriteString("@all")
		case n < 0:
			b.WriteString(key)
		case me != "" && mentions[n].ID.Open == me:
			before := b.String()
			if end < len(text) && text[end] == ' ' && (before == "" || before[len(before)-1] == ' ' || before[len(before)-1] == '\n') {
				end++
			}
		default:
			b.WriteString("@" + mentions[n].Name)
		}
		at = end
	}
	return strings.TrimSpace(b.String())
}

// keyAt is the key that a text begins with: @_user_1 is not the beginning of @_user_12.
func keyAt(text string) string {
	if strings.HasPrefix(text, everybody) {
		return everybody
	}
	n := len("@_")
	for n < len(text) && (text[n] == '_' || 'a' <= text[n] && text[n] <= 'z') {
		n++
	}
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	return text[:n]
}
