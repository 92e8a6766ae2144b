package feishu

import (
	"encoding/json"
	"fmt"
	"maps"
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

// keyOfAll is the key of a mention of everybody.
const keyOfAll = "@_all"

// fields are those of the contents of all types but post.
type fields struct {
	Text     string     `json:"text"`
	Image    string     `json:"image_key"`
	File     string     `json:"file_key"`
	FileName string     `json:"file_name"`
	Duration int64      `json:"duration"` // in milliseconds
	Place    string     `json:"name"`
	Lat      coordinate `json:"latitude"`
	Lon      coordinate `json:"longitude"`
	Chat     string     `json:"chat_id"`
	User     string     `json:"user_id"`
	Summary  string     `json:"summary"`
	Topic    string     `json:"topic"`
	Title    string     `json:"title"`
	Elements [][]node   `json:"elements"` // of a card, as other apps read it
}

// coordinate is a number that may be written as a string.
type coordinate string

// UnmarshalJSON implements [json.Unmarshaler].
func (c *coordinate) UnmarshalJSON(data []byte) error {
	*c = coordinate(strings.Trim(string(data), `"`))
	return nil
}

// read reads the content of a message. Content of another form than its type has is empty.
func (m *message) read() content {
	if m.Type == "post" {
		return m.readPost(postOf(m.Content))
	}
	var f fields
	_ = json.Unmarshal([]byte(m.Content), &f) // what could be read counts
	c := content{text: f.describe(m.Type)}
	file := func(kind channel.MediaKind, key, contentType string, image bool) {
		if key != "" {
			c.files = append(c.files, attachment{messageID: m.ID, key: key, image: image, Attachment: platform.Attachment{Name: f.FileName, Fact: channel.MediaFact{
				Kind: kind, ContentType: contentType, MessageID: m.ID, Duration: time.Duration(f.Duration) * time.Millisecond,
			}}})
		}
	}
	switch m.Type {
	case "text":
		c.text, c.all = f.Text, strings.Contains(f.Text, keyOfAll)
	case "image":
		file(channel.MediaImage, f.Image, "", true)
	case "file":
		file(kindOfName(f.FileName), f.File, "", false)
	case "audio":
		file(channel.MediaAudio, f.File, "audio/ogg", false)
	case "media":
		file(channel.MediaVideo, f.File, "video/mp4", false)
	case "interactive":
		card := m.readPost(post{Title: f.Title, Content: f.Elements})
		if strings.TrimSpace(card.text) == "" {
			card.text = "[card]"
		}
		c.text, c.all = card.text, card.all // the files of a card cannot be loaded
	}
	return c
}

// describe returns the text for a message that is neither text nor a file.
func (f *fields) describe(messageType string) string {
	switch messageType {
	case "sticker":
		return "[sticker]"
	case "location":
		return fmt.Sprintf("[location: %s, %s, %s]", f.Place, f.Lat, f.Lon)
	case "share_chat":
		return fmt.Sprintf("[chat: %s]", f.Chat)
	case "share_user":
		return fmt.Sprintf("[contact: %s]", f.User)
	case "merge_forward":
		return "[forwarded messages]"
	case "folder":
		return fmt.Sprintf("[folder %q]", f.FileName)
	case "todo", "vote", "hongbao", "calendar", "share_calendar_event", "general_calendar", "video_chat":
		name := strings.ReplaceAll(messageType, "_", " ")
		if more := strings.TrimSpace(f.Summary + " " + f.Topic); more != "" {
			name += ": " + more
		}
		return "[" + name + "]"
	}
	return ""
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

// post is a rich text.
type post struct {
	Title   string   `json:"title"`
	Content [][]node `json:"content"` // by line
}

// node is a part of a rich text.
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

// postOf reads a rich text. Of one in several languages, it returns the first by name.
func postOf(content string) post {
	var p post
	if json.Unmarshal([]byte(content), &p) != nil || p.Content != nil {
		return p
	}
	var byLanguage map[string]post
	if json.Unmarshal([]byte(content), &byLanguage) != nil {
		return p
	}
	for _, language := range slices.Sorted(maps.Keys(byLanguage)) {
		if byLanguage[language].Content != nil {
			return byLanguage[language]
		}
	}
	return p
}

func (m *message) readPost(p post) content {
	var c content
	var lines []string
	if p.Title != "" {
		lines = append(lines, p.Title)
	}
	for _, nodes := range p.Content {
		line := ""
		for _, n := range nodes {
			line += n.text()
			c.all = c.all || n.isAll()
			file := attachment{messageID: m.ID}
			switch {
			case n.Tag == "img" && n.Image != "":
				file.key, file.image, file.Fact = n.Image, true, channel.MediaFact{Kind: channel.MediaImage, MessageID: m.ID}
			case n.Tag == "media" && n.File != "":
				file.key, file.Fact = n.File, channel.MediaFact{Kind: channel.MediaVideo, ContentType: "video/mp4", MessageID: m.ID}
			default:
				continue
			}
			c.files = append(c.files, file)
		}
		lines = append(lines, line)
	}
	c.text = strings.Join(lines, "\n")
	return c
}

func (n *node) isAll() bool { return n.Tag == "at" && (n.User == "all" || n.User == keyOfAll) }

// text returns the text of a node.
func (n *node) text() string {
	switch n.Tag {
	case "text", "md":
		return n.Text
	case "a":
		if n.Href == "" || strings.TrimSuffix(n.Href, "/") == strings.TrimSuffix(n.Text, "/") {
			return n.Text
		}
		return n.Text + " (" + n.Href + ")"
	case "at":
		switch {
		case n.isAll():
			return keyOfAll
		case strings.HasPrefix(n.User, "@"): // a key, as in a plain text
			return n.User
		}
		return "@" + n.UserName
	case "emotion":
		return "[" + n.Emoji + "]"
	case "hr":
		return "---"
	case "code_block":
		return "```" + strings.ToLower(n.Language) + "\n" + strings.TrimSuffix(n.Text, "\n") + "\n```"
	}
	return ""
}

// withNames replaces the keys of mentions in a text with names. The mention of the person self is removed, with the space behind it where
// a line or another space comes before.
func withNames(text string, mentions []mention, self string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "@_")
		b.WriteString(before)
		if !found {
			return strings.TrimSpace(b.String())
		}
		key := mentionKey("@_" + rest)
		text = text[len(before)+len(key):]
		i := slices.IndexFunc(mentions, func(m mention) bool { return m.Key == key })
		switch {
		case key == keyOfAll:
			b.WriteString("@all")
		case i < 0:
			b.WriteString(key)
		case self != "" && mentions[i].ID.Open == self:
			if written := b.String(); written == "" || strings.HasSuffix(written, " ") || strings.HasSuffix(written, "\n") {
				text = strings.TrimPrefix(text, " ")
			}
		default:
			b.WriteString("@" + mentions[i].Name)
		}
	}
}

// mentionKey returns the key that a text begins with: letters and then digits, as in @_user_12.
func mentionKey(text string) string {
	if strings.HasPrefix(text, keyOfAll) {
		return keyOfAll
	}
	rest := strings.TrimLeft(text[len("@_"):], "_abcdefghijklmnopqrstuvwxyz")
	rest = strings.TrimLeft(rest, "0123456789")
	return text[:len(text)-len(rest)]
}
