package feishu

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/platform"
)

// content is what a message says.
type content struct {
	text  string // with the keys of mentions
	files []attachment
	all   bool // everybody is mentioned
}

// attachment is a file of a message.
type attachment struct {
	platform.Attachment
	messageID, key string
	image          bool // the platform keeps images apart from other files
}

// object is the content of a message, or a part of a rich text.
type object map[string]any

// get returns a field as text; "" if there is none.
func (o object) get(name string) string {
	if o[name] == nil {
		return ""
	}
	return fmt.Sprint(o[name])
}

// post is a rich text.
type post struct {
	Title    string     `json:"title"`
	Content  [][]object `json:"content"`  // by line
	Elements [][]object `json:"elements"` // the same of a card, as other apps read it
}

// keyOfAll is the key of a mention of everybody.
const keyOfAll = "@_all"

// descriptions are the texts of messages that are neither text nor files, with names of fields.
var descriptions = map[string]string{
	"sticker": "[sticker]", "location": "[location: $name, $latitude, $longitude]", "share_chat": "[chat: $chat_id]", "share_user": "[contact: $user_id]",
	"merge_forward": "[forwarded messages]", "folder": `[folder "$file_name"]`, "todo": "[todo: $summary]", "vote": "[vote: $topic]", "hongbao": "[hongbao]",
	"calendar": "[calendar: $summary]", "share_calendar_event": "[share calendar event: $summary]", "general_calendar": "[general calendar: $summary]",
	"video_chat": "[video chat: $topic]",
}

// read reads the content of a message. Content of another form than its type has is empty.
func (m *message) read() (c content) {
	raw := []byte(m.Content)
	var o object
	var p post
	switch m.Type {
	case "post":
		p = readPost(raw)
		m.addPost(&c, p.Title, p.Content)
	case "interactive":
		_ = json.Unmarshal(raw, &p) // a card of another form is empty
		if m.addPost(&c, p.Title, p.Elements); strings.TrimSpace(c.text) == "" {
			c.text = "[card]"
		}
		c.files = nil // they cannot be loaded
	default:
		_ = json.Unmarshal(raw, &o)
		c.text = strings.Replace(os.Expand(descriptions[m.Type], o.get), ": ]", "]", 1)
		if m.Type == "text" {
			c.text, c.all = o.get("text"), strings.Contains(o.get("text"), keyOfAll)
		}
		m.addFile(&c, m.Type, o)
	}
	return c
}

// readPost reads a rich text. Of one in several languages, it returns the first by name.
func readPost(raw []byte) (p post) {
	var byLanguage map[string]post
	if json.Unmarshal(raw, &p) != nil || p.Content != nil || json.Unmarshal(raw, &byLanguage) != nil {
		return p
	}
	for _, language := range slices.Sorted(maps.Keys(byLanguage)) {
		if p = byLanguage[language]; p.Content != nil {
			break
		}
	}
	return p
}

// addPost adds a rich text.
func (m *message) addPost(c *content, title string, lines [][]object) {
	if title != "" {
		c.text = title + "\n"
	}
	for i, line := range lines {
		if i > 0 {
			c.text += "\n"
		}
		for _, o := range line {
			text := o.richText()
			c.text += text
			c.all = c.all || o["tag"] == "at" && text == keyOfAll
			m.addFile(c, o.get("tag"), o)
		}
	}
}

// addFile adds the file of a message, or of a part of a rich text, if that is one.
func (m *message) addFile(c *content, kind string, o object) {
	a := attachment{messageID: m.ID, key: o.get("file_key"), Attachment: platform.Attachment{Name: o.get("file_name")}}
	duration, _ := o["duration"].(float64)
	a.Fact = channel.MediaFact{MessageID: m.ID, Duration: time.Duration(duration) * time.Millisecond}
	switch kind {
	case "image", "img":
		a.Fact.Kind, a.key, a.image = channel.MediaImage, o.get("image_key"), true
	case "file":
		a.Fact.Kind = kindOfName(a.Name)
	case "audio":
		a.Fact.Kind, a.Fact.ContentType = channel.MediaAudio, "audio/ogg"
	case "media":
		a.Fact.Kind, a.Fact.ContentType = channel.MediaVideo, "video/mp4"
	default:
		return
	}
	if a.key != "" {
		c.files = append(c.files, a)
	}
}

// kindOfName guesses the kind of a file by its name: the platform says no more of it.
func kindOfName(name string) channel.MediaKind {
	switch platform.Ending(name) {
	case ".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp":
		return channel.MediaImage
	case ".mp3", ".ogg", ".opus", ".wav", ".m4a", ".flac":
		return channel.MediaAudio
	case ".mp4", ".mov", ".webm", ".mkv":
		return channel.MediaVideo
	}
	return channel.MediaDocument
}

// richText returns the text of a part of a rich text.
func (o object) richText() string {
	text, href, user := o.get("text"), o.get("href"), o.get("user_id")
	switch o.get("tag") {
	case "text", "md":
		return text
	case "a":
		if href == "" || strings.TrimSuffix(href, "/") == strings.TrimSuffix(text, "/") {
			return text
		}
		return text + " (" + href + ")"
	case "at":
		switch {
		case user == "all":
			return keyOfAll
		case strings.HasPrefix(user, "@"): // a key, as in a plain text
			return user
		}
		return "@" + o.get("user_name")
	case "emotion":
		return "[" + o.get("emoji_type") + "]"
	case "hr":
		return "---"
	case "code_block":
		return "```" + strings.ToLower(o.get("language")) + "\n" + strings.TrimSuffix(text, "\n") + "\n```"
	}
	return ""
}

// mentionKey is the form of keys of mentions, such as @_user_1.
var mentionKey = regexp.MustCompile(`@_(all|[a-z_]*[0-9]*) ?`)

// withNames replaces the keys of mentions in a text with names. The mention of the person self is removed, with the space behind it where
// a line or another space comes before.
func withNames(text string, mentions []mention, self string) string {
	var b strings.Builder
	end := 0
	for _, at := range mentionKey.FindAllStringIndex(text, -1) {
		before := text[end:at[0]]
		b.WriteString(before)
		end = at[1]
		key, isSpaced := strings.CutSuffix(text[at[0]:at[1]], " ")
		i := slices.IndexFunc(mentions, func(m mention) bool { return m.Key == key })
		switch {
		case key == keyOfAll:
			key = "@all"
		case i < 0:
		case self == "" || mentions[i].ID.Open != self:
			key = "@" + mentions[i].Name
		default:
			written := b.String()
			key, isSpaced = "", isSpaced && written != "" && !strings.HasSuffix(written, " ") && !strings.HasSuffix(written, "\n")
		}
		b.WriteString(key)
		if isSpaced {
			b.WriteByte(' ')
		}
	}
	return strings.TrimSpace(b.String() + text[end:])
}
