package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lingserve/lingserve/cluster"
	"github.com/lingserve/lingserve/store"
)

// place is the stream of a table or of a space of logs.
type place struct {
	e       *Engine
	name    string // of the stream
	prefix  string // of subjects, with the dot
	config  jetstream.StreamConfig
	barrier *cluster.Barrier
	stream  atomic.Pointer[jetstream.Stream]
	remade  func() // is called when the stream was made again; may be nil
}

// open makes the stream if it does not exist.
func (p *place) open(ctx context.Context, e *Engine, name, prefix string, config jetstream.StreamConfig) error {
	config.Name, config.Subjects = name, []string{prefix + ".>"}
	p.e, p.name, p.prefix, p.config = e, name, prefix+".", config
	p.barrier = e.c.Barrier(name, p.prefix+cluster.BarrierToken)
	if err := p.make(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return fmt.Errorf("%w: %w", store.ErrAway, err)
	}
	return nil
}

// make makes the stream if it does not exist. One that is made again, after an operator has deleted it, has higher sequences than before,
// since they begin with the time in microseconds: so no revision of before fits.
func (p *place) make(ctx context.Context) error {
	config := p.config
	config.FirstSeq = uint64(time.Now().UnixMicro())
	s, err := p.e.c.Stream(ctx, config)
	if err != nil {
		return err
	}
	p.stream.Store(&s)
	return nil
}

// tokens are those of a subject for a name.
func tokens(name string) string {
	if !strings.Contains(name, "/") {
		return cluster.Token(name)
	}
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = cluster.Token(part)
	}
	return strings.Join(parts, ".")
}

// untokens undoes tokens. It is "" if a part is too long to be written out in a subject.
func untokens(text string) string {
	parts := strings.Split(text, ".")
	for i, token := range parts {
		part, ok := cluster.Untoken(token)
		if !ok {
			return ""
		}
		parts[i] = part
	}
	return strings.Join(parts, "/")
}

// ask asks the leader for one message; it is nil if there is none.
func (p *place) ask(ctx context.Context, request any) (*jetstream.RawStreamMsg, error) {
	data, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	answer, err := p.e.c.Conn().RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+p.name, data)
	if err != nil {
		return nil, err
	}
	var a struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject  string `json:"subject"`
			Sequence uint64 `json:"seq"`
			Header   []byte `json:"hdrs"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	switch err := json.Unmarshal(answer.Data, &a); {
	case err != nil:
		return nil, fmt.Errorf("an answer of no known form: %w", err)
	case a.Error != nil && a.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, nil
	case a.Error != nil:
		return nil, a.Error
	case a.Message == nil:
		return nil, errors.New("an answer of no known form")
	}
	header, err := client.DecodeHeadersMsg(a.Message.Header)
	if err != nil {
		header = nil // of a message that is not the engine's
	}
	return &jetstream.RawStreamMsg{Subject: a.Message.Subject, Sequence: a.Message.Sequence, Header: header, Data: a.Message.Data}, nil
}
