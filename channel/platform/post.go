package platform

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/lingserve/lingserve/channel"
	"github.com/lingserve/lingserve/channel/kernel"
	"github.com/lingserve/lingserve/channel/markup"
)

// Post is one message of a block.
type Post struct {
	Block       *channel.Block
	N           int              // its place among the messages of the block; only the first one is a reply
	Edit        string           // the id of the message that it replaces; ""
	Text, Plain string           // in the markup of the platform, and without markup; "" of a file
	File        *File            // in place of the text, or with a question; nil
	Buttons     []channel.Button // of a question
	Outcome     string           // the last line of Text, which says what was decided of a question; ""
	Preview     bool             // a newer text comes soon

	media *channel.MediaFact // becomes File
}

// File is a file that is sent.
type File struct {
	Name string
	Kind channel.MediaKind
	Data []byte
}

// Poster sends the answer of a turn as messages: its methods are those of [kernel.Delivery], and are not called at the same time.
type Poster struct {
	Format markup.Format
	Limit  markup.Limit
	// Post sends a message or replaces one, and returns its id, or "".
	Post func(context.Context, *Post) (id string, err error)
	Gone []*Kind // refusals of edits of messages that are not there any more

	Files   *MediaStore
	MaxFile int64 // bytes of a file
	// Attach says that the file of a question goes into its message, not before it.
	Attach bool
	// Mention returns the markup that names a person by an id; "": it is no id. nil: the platform has none.
	Mention func(by string) string

	shown string // by the preview
}

// Send sends a block of the outbox, as [kernel.Sender] has it.
func (p *Poster) Send(ctx context.Context, out channel.Outbound) (channel.Receipt, error) {
	return p.Deliver(ctx, out.Block)
}

// Delivery returns how the answer is sent, without the signs of work. preview is a setting.
func (p *Poster) Delivery(preview string) *kernel.Delivery {
	d := &kernel.Delivery{Deliver: p.Deliver, Preview: p.Preview, Settle: p.Settle, Durable: true}
	if preview == PreviewOff {
		d.Preview = nil
	}
	return d
}

// split turns the Markdown of a model into messages.
func (p *Poster) split(b *channel.Block, text string) (list []Post) {
	for _, one := range markup.Pieces(text, p.Format, p.Limit) {
		list = append(list, Post{Block: b, N: len(list), Text: one.Text, Plain: one.Plain})
	}
	return list
}

// Deliver sends a block in as many messages as it needs. The first replaces the preview.
func (p *Poster) Deliver(ctx context.Context, b channel.Block) (channel.Receipt, error) {
	if b.Question != nil {
		return p.ask(ctx, b)
	}
	r := receipt(&b)
	text, files := TextAndFiles(&b)
	list := p.split(&b, text)
	if len(list) > 0 {
		list[0].Edit = b.Preview.First()
	}
	for i := range files {
		list = append(list, Post{Block: &b, N: len(list), media: &files[i]})
	}
	if len(list) == 0 {
		r.State = channel.Suppressed
	}
	for n := range list {
		id, err := p.send(ctx, &list[n])
		if err != nil && n > 0 {
			err = &channel.PartialError{Receipt: r, Err: err}
		}
		if err != nil {
			return r, err
		}
		if id != "" {
			r.MessageIDs = append(r.MessageIDs, id)
		}
	}
	return r, nil
}

// send sends a message. One that replaces a message that is not there any more is new.
func (p *Poster) send(ctx context.Context, m *Post) (id string, err error) {
	if m.media != nil {
		data, err := p.Files.Read(m.media.Path, p.MaxFile)
		if err != nil {
			return "", err
		}
		m.File = &File{filepath.Base(m.media.Path), m.media.Kind, data}
	}
	id, err = p.Post(ctx, m)
	if m.Edit != "" && Is(err, p.Gone...) {
		m.Edit = ""
		id, err = p.Post(ctx, m)
	}
	return id, err
}

// receipt returns the receipt of a block, for the messages with these ids.
func receipt(b *channel.Block, ids ...string) channel.Receipt {
	return channel.Receipt{MessageIDs: ids, ThreadID: b.Target.MessageThreadID.Value, ReplyToID: b.Target.ReplyToID.Value}
}

// Preview shows the text so far, as much of it as one message holds.
func (p *Poster) Preview(ctx context.Context, b channel.Block, before channel.Receipt) (channel.Receipt, error) {
	list := p.split(&b, b.Text)
	switch {
	case len(list) == 0:
		return channel.Receipt{State: channel.Suppressed}, nil
	case before.First() != "" && list[0].Text == p.shown: // what is new does not fit
		return before, nil
	}
	m := &list[0]
	m.Edit, m.Preview = before.First(), true
	id, err := p.Post(ctx, m)
	if err != nil {
		return channel.Receipt{}, err
	}
	p.shown = m.Text
	return receipt(&b, id), nil
}

// question returns the message that asks the question of a block. It is one message or none, because no one may approve what they have not
// read. Arguments that do not fit into it are in a file.
func (p *Poster) question(b *channel.Block) (*Post, error) {
	q := *b.Question
	list := p.split(b, q.Text)
	if len(list) > 1 && q.File == "" && q.Arguments != "" {
		q.File = "arguments-" + q.ID + ".json"
		list = p.split(b, fmt.Sprintf("The agent wants to call the tool `%s` with the arguments in the file `%s`.", q.Tool, q.File))
	}
	if len(list) != 1 {
		return nil, &channel.NotSentError{Err: errors.New("the question does not fit into one message")}
	}
	b.Question = &q
	return &list[0], nil
}

// ask sends a question with its buttons.
func (p *Poster) ask(ctx context.Context, b channel.Block) (channel.Receipt, error) {
	m, err := p.question(&b)
	if err != nil {
		return channel.Receipt{}, err
	}
	q := b.Question
	m.Buttons = q.Buttons()
	if f := (&File{q.File, channel.MediaDocument, []byte(q.Arguments)}); q.File != "" && p.Attach {
		m.File = f
	} else if q.File != "" {
		if _, err := p.Post(ctx, &Post{Block: &b, N: 1, File: f}); err != nil {
			return channel.Receipt{}, &channel.NotSentError{Err: fmt.Errorf("the file of a question: %w", err)}
		}
	}
	id, err := p.Post(ctx, m)
	return receipt(&b, id), err
}

// Settle shows below a question what was decided, in place of its buttons.
func (p *Poster) Settle(ctx context.Context, asked channel.Block, sent channel.Receipt, d channel.Decided) error {
	m, err := p.question(&asked)
	if err != nil || sent.First() == "" {
		return err
	}
	line := d.Text(markup.Literal(d.By))
	m.Edit, m.Outcome = sent.First(), markup.Convert(line, p.Format)
	if p.Mention != nil && p.Mention(d.By) != "" {
		m.Outcome = d.Text(p.Mention(d.By))
	}
	if len(p.split(&asked, asked.Question.Text+"\n\n"+line)) > 1 {
		m.Text, m.Plain = "", ""
	}
	m.Text, m.Plain = strings.TrimSpace(m.Text+"\n\n"+m.Outcome), strings.TrimSpace(m.Plain+"\n\n"+d.Text(d.By))
	if _, err = p.Post(ctx, m); Is(err, p.Gone...) {
		return nil
	}
	return err
}

// TextAndFiles returns the text of a block, with the addresses of its media below it, and the files that are sent with it.
func TextAndFiles(b *channel.Block) (text string, files []channel.MediaFact) {
	text = b.Text
	for _, m := range b.Media {
		switch {
		case m.Path != "":
			files = append(files, m)
		case m.URL != "":
			text = strings.TrimSpace(text + "\n\n" + m.URL)
		}
	}
	return text, files
}
